"""8: what fewer bits per weight buy."""

from observatory.studies.questions import BASIC
from observatory.studies.ready_made.base import MODEL, ReadyMade, Short, Sketch, llamacpp

WEIGHT_QUANTIZATION = ReadyMade(
    slug="weight-quantization",
    number=8,
    title="Weight quantization",
    question="How much faster is decoding with weights of 8 and of 4 bits?",
    arms=tuple(
        Sketch(form, llamacpp(f"{MODEL}:{form}", n_parallel=1, n_ctx=2048), precision=form.lower())
        for form in ("F16", "Q8_0", "Q4_0")
    ),
    spec={
        "workload": {"input_tokens": 64, "output_tokens": 96},
        "load": {"levels": [1], "requests": 16, "warmup_s": 2},
        "power": {"idle_s": 2},
    },
    short=Short({"load": {"requests": 7, "warmup_s": 1}, "workload": {"output_tokens": 32}}, arms=("F16", "Q4_0")),
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
            "context": 112,
            "accelerators": 1,
            "bandwidth_gb_s": 10,
            "peak_tflops": 1,
            "link_gb_s": None,
            "launch_us": 0,
        },
    },
    quality=BASIC,
    look_for="TPOT falls, by less than the bits: unpacking takes arithmetic. TTFT need not fall at all, because "
    "prefill is bound by arithmetic.",
    limits="The weights come from one 4-bit file: the wider forms take more memory and are no better, so that the "
    "answers show what changing the form again costs, and not what 4 bits cost. FP8 and FP4 arithmetic needs hardware "
    "that has it.",
)
