"""9: what fewer bits per cached key and value buy."""

from observatory.studies.questions import BASIC
from observatory.studies.ready_made.base import ReadyMade, Short, Sketch, llamacpp

_BITS = {"F16": 16.0, "Q8_0": 8.5, "Q4_0": 4.5}

CACHE_QUANTIZATION = ReadyMade(
    slug="cache-quantization",
    number=9,
    title="KV-cache quantization",
    question="Does a cache of fewer bits make decoding at a long context faster?",
    arms=tuple(
        Sketch(
            f"cache {kind}",
            llamacpp(n_parallel=1, n_ctx=4096, cache_type_k=kind, cache_type_v=kind, flash_attn_type="ENABLED"),
            theory={"kv_bits": bits},
        )
        for kind, bits in _BITS.items()
    ),
    spec={
        "workload": {"input_tokens": 2048, "output_tokens": 48},
        "load": {"levels": [1], "requests": 8, "warmup_s": 0},
        "power": {"idle_s": 2},
    },
    short=Short(
        {"load": {"requests": 7}, "workload": {"input_tokens": 512, "output_tokens": 16}},
        arms=("cache F16", "cache Q4_0"),
    ),
    measures=(
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "j_per_output_token"},
    ),
    prediction={
        "calculator": "decode-limit",
        "output": "step_ms",
        "as": "ratio",
        "inputs": {
            "batch": 1,
            "context": 2072,
            "accelerators": 1,
            "bandwidth_gb_s": 10,
            "peak_tflops": 1,
            "link_gb_s": None,
            "launch_us": 0,
        },
    },
    quality=BASIC,
    look_for="Theory counts bytes and expects a small gain. On a CPU unpacking the cache costs more than reading less "
    "of it saves: decoding gets slower. What is gained is memory, and so requests that fit.",
    limits="The gain in requests that fit does not show with one request at a time; the KV-cache calculator gives it.",
)
