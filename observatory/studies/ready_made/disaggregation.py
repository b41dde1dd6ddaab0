"""7: prefill and decode on engines of their own, against both on the same ones, at equal cores."""

from typing import Any

from observatory.studies.ready_made.base import Json, ReadyMade, Short, Sketch, router, vllm

_LONGEST, _BLOCK, _CHUNK, _WHOLE = 1280, 32, 256, 2048
#: The connector hands over what the first step of a prompt computed: all prompts in flight fit into one step.
_ALL_AT_ONCE = 4 * _WHOLE
#: And it looks for the cache of a prompt of some blocks and one token under another name than it kept it (vLLM 0.32,
#: example_connector.py: ``make_meta`` against ``_found_match_for_prompt``). Here is none of these.
_LENGTHS: Json = {"shape": "uniform", "low": 2 * _BLOCK, "high": _LONGEST, "step": _BLOCK}


def _engine(*cores: int, chunk: int = _WHOLE, **options: Any) -> Json:
    return vllm(
        cores=cores,
        max_model_len=_WHOLE,
        max_num_seqs=8,
        max_num_batched_tokens=chunk,
        block_size=_BLOCK,
        enable_prefix_caching=False,
        **options,
    )


def _handing_over(core: int, role: str) -> Json:
    transfer = {
        "kv_connector": "ExampleConnector",
        "kv_role": role,
        "kv_connector_extra_config": {"shared_storage_path": "{scratch}"},
    }
    return _engine(core, chunk=_ALL_AT_ONCE, kv_transfer_config=transfer)


def _arm(name: str, recipe: Json, cores: int, tokens: int) -> Sketch:
    """``tokens``: the most prompt tokens that one step of an engine that decodes reads, on so many cores."""
    return Sketch(name, recipe, theory={"accelerators": cores, "prompt_tokens": tokens}, precision="bf16")


DISAGGREGATION = ReadyMade(
    slug="disaggregation",
    number=7,
    title="Disaggregated serving",
    question="Do streams run more smoothly when prompts are read by an engine of their own, and what does it cost?",
    arms=(
        _arm("chunks of 256", _engine(0, 1, chunk=_CHUNK), 2, _CHUNK),
        _arm("chunks of 2048", _engine(0, 1), 2, _LONGEST),
        _arm("two replicas", router("round-robin", _engine(0), _engine(1)), 1, _LONGEST),
        _arm(
            "disaggregated",
            router("disaggregated", _handing_over(0, "kv_producer"), _handing_over(1, "kv_consumer")),
            1,
            _BLOCK,
        ),
    ),
    spec={
        "workload": {"input_tokens": _LENGTHS, "output_tokens": 64},
        "load": {"levels": [4], "requests": 24, "warmup_s": 0},
        "power": {"idle_s": 2},
    },
    short=Short({"load": {"requests": 10}, "workload": {"output_tokens": 32}}, arms=("chunks of 256", "disaggregated")),
    measures=(
        {"metric": "event_gap_ms", "statistic": "max"},
        {"metric": "event_gap_ms", "statistic": "p90"},
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "output_tokens_per_s"},
        {"metric": "j_per_output_token"},
    ),
    prediction={
        "calculator": "prefill",
        "output": "prefill_ms",
        "as": "ratio",
        "inputs": {"bandwidth_gb_s": 10, "peak_tflops": 0.4, "link_gb_s": None},
    },
    repeats=3,
    smallest=10,
    look_for="Two replicas and one engine that reads whole prompts stop their streams for the time of a prompt. Apart, "
    "a stream waits only while the cache of a newcomer is loaded and its last tokens are read. Small chunks come near "
    "that on the same cores, and the first token comes sooner: they are the fair baseline. The server tab of a run "
    "counts the prompt tokens that came from the other engine as cached.",
    limits="The cache goes through files, which between GPUs would be a link; loading it stops the streams, and the "
    "prediction leaves it out. One core for each phase is a coarse split: pools sized to the traffic are what the "
    "calculator of disaggregation gives. The worst gap is one event of a run: repeats matter more than requests. "
    "Prompts are of whole blocks: vLLM's file connector does not find the cache of one that is a token longer.",
)
