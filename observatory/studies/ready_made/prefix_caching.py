"""5: what a prefix cache saves, by the share of the prompt that is shared."""

from observatory.studies.ready_made.base import Json, ReadyMade, Short, Sketch, llamacpp

_PROMPT = 512
_SHARES = (25, 50, 75)
_ON = llamacpp(n_parallel=1, n_ctx=4096, cache_prompt=True, cache_ram_mib=0)
_OFF = llamacpp(n_parallel=1, n_ctx=4096, cache_prompt=False, cache_ram_mib=0)


def _shared(percent: int) -> Json:
    source = {"kind": "prefixes", "groups": 1, "prefix_tokens": _PROMPT * percent // 100}
    return {"workload": {"source": source}}


PREFIX_CACHING = ReadyMade(
    slug="prefix-caching",
    number=5,
    title="Prefix caching",
    question="How much sooner does the first token come when a part of the prompt is in the cache?",
    arms=(
        Sketch("cache off, 75 % shared", _OFF, _shared(75), {"shared_tokens": 0}, x=0),
        *(
            Sketch(
                f"cache on, {percent} % shared",
                _ON,
                _shared(percent),
                {"shared_tokens": _PROMPT * percent // 100},
                x=percent,
            )
            for percent in _SHARES
        ),
    ),
    factor="Shared part of the prompt, %",
    spec={
        "workload": {"input_tokens": _PROMPT, "output_tokens": 16},
        "load": {"levels": [1], "requests": 16, "warmup_s": 0},
        "power": {"idle_s": 2},
    },
    short=Short({"load": {"requests": 8}}, arms=("cache off, 75 % shared", "cache on, 75 % shared")),
    measures=(
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "cached_share"},
        {"metric": "tpot_ms", "statistic": "p50"},
    ),
    prediction={
        "calculator": "prefix-cache",
        "output": "ttft_hit_ms",
        "as": "ratio",
        "inputs": {"prompt_tokens": _PROMPT, "prefill_tokens_per_s": "baseline.prefill_tokens_per_s"},
    },
    smallest=10,
    look_for="The median TTFT falls about as the part that must be read anew; the first request of the prefix pays in "
    "full. TPOT stays. The server's own count of cached tokens stands beside.",
    limits="One slot holds one prefix, so that nothing is pushed out of the cache: how hit rates fall when memory is "
    "short needs more prefixes than slots.",
)
