"""4: how many requests a paged cache holds as memory shrinks, and what putting requests back costs."""

from observatory.studies.ready_made.base import Json, ReadyMade, Short, Sketch, vllm

_BLOCK, _LONGEST = 32, 512
_PROMPT, _ANSWER, _IN_FLIGHT = 128, 128, 8
_KB_PER_TOKEN, _PARAMETERS_B = 23.04, 0.1345
#: Blocks that all requests in flight never fill, and a half and a quarter of what they take when they end.
_BLOCKS = (80, 32, 16)


def _memory(requests_or_blocks: int, tokens_each: int) -> Json:
    """Memory of weights and of so much cache, in the calculator's GB."""
    cache_gb = requests_or_blocks * tokens_each * _KB_PER_TOKEN / 1e6
    return {"memory_gb": round(2 * _PARAMETERS_B + cache_gb, 6)}


def _arm(blocks: int) -> Sketch:
    mean = _PROMPT + _ANSWER // 2
    enough = blocks * _BLOCK >= _IN_FLIGHT * (_PROMPT + _ANSWER + _BLOCK)
    return Sketch(
        f"room for {blocks * _BLOCK} tokens",
        vllm(
            max_model_len=_LONGEST,
            max_num_seqs=_IN_FLIGHT,
            block_size=_BLOCK,
            # vLLM keeps one block empty, to which unused entries of its block tables point.
            num_gpu_blocks_override=blocks + 1,
            enable_prefix_caching=False,
        ),
        # More room than the requests in flight can fill is no use: theory is given what they fill.
        theory=_memory(_IN_FLIGHT, mean) if enough else _memory(blocks, _BLOCK),
        x=blocks * _BLOCK,
        precision="bf16",
    )


PAGED_CACHE = ReadyMade(
    slug="paged-cache",
    number=4,
    title="Paged KV cache",
    question="How much throughput is left when the KV cache shrinks below what the requests in flight need?",
    arms=tuple(map(_arm, _BLOCKS)),
    factor="KV cache, tokens",
    spec={
        "workload": {"input_tokens": _PROMPT, "output_tokens": _ANSWER},
        "load": {"levels": [_IN_FLIGHT], "requests": 32, "warmup_s": 0},
        "power": {"idle_s": 2},
    },
    short=Short({"load": {"requests": 16}}, arms=(f"room for {80 * _BLOCK} tokens", f"room for {16 * _BLOCK} tokens")),
    measures=(
        {"metric": "output_tokens_per_s"},
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "event_gap_ms", "statistic": "max"},
        {"metric": "j_per_output_token"},
    ),
    prediction={
        "calculator": "kv-cache",
        "output": "paged_requests",
        "as": "ratio",
        "inputs": {
            "parameters_b": _PARAMETERS_B,
            "accelerators": 1,
            "usable_share": 1,
            "mean_tokens": _PROMPT + _ANSWER // 2,
            "reserved_tokens": _LONGEST,
            "block_tokens": _BLOCK,
        },
    },
    repeats=3,
    smallest=10,
    look_for="Throughput falls about as the requests that fit at once, because a step takes nearly as long for two as "
    "for eight. The server's counter tells how often a request was put back: it lets go of its blocks, is read anew "
    "with what it had answered, and its stream stands still meanwhile. The calculator tells how many requests would "
    "fit if each reserved the longest length: fewer in each arm.",
    limits="The engine is told a number of blocks: the machine's memory is far from full. On two cores reading a "
    "request anew takes longer against a step than on an accelerator, so that being put back costs more here.",
)
