"""1: TTFT grows with the prompt, TPOT hardly with the context."""

from observatory.studies.ready_made.base import ReadyMade, Short, Sketch, llamacpp

_LENGTHS = (128, 256, 512, 1024, 2048)
_ENGINE = llamacpp(n_parallel=1, n_ctx=4096)

TWO_PHASES = ReadyMade(
    slug="two-phases",
    number=1,
    title="Two phases",
    question="How do the time to the first token and the time per token grow with the prompt?",
    arms=tuple(
        Sketch(
            f"{length} prompt tokens",
            _ENGINE,
            spec={"workload": {"input_tokens": length}},
            theory={"prompt_tokens": length},
            x=length,
        )
        for length in _LENGTHS
    ),
    factor="Prompt tokens",
    spec={
        "workload": {"output_tokens": 32},
        "load": {"levels": [1], "requests": 12, "warmup_s": 1},
        "power": {"idle_s": 2},
    },
    short=Short(
        {"load": {"requests": 7}, "workload": {"output_tokens": 12}}, arms=("128 prompt tokens", "512 prompt tokens")
    ),
    measures=(
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "j_per_total_token"},
    ),
    prediction={
        "calculator": "prefill",
        "output": "prefill_ms",
        "as": "ratio",
        "inputs": {"accelerators": 1, "bandwidth_gb_s": 10, "peak_tflops": 0.4, "link_gb_s": None},
    },
    smallest=10,
    look_for="TTFT rises about in proportion to the prompt, and a little faster where attention counts. TPOT rises "
    "only by what reading the longer cache takes.",
    limits="On a CPU prefill and decode share the same cores and caches, so that decode is bound by arithmetic "
    "sooner than on a GPU. The shape of the curves carries over, their level does not.",
)
