"""18: what quantized checkpoints buy on vLLM, in decoding and in reading prompts."""

from observatory.studies.questions import BASIC
from observatory.studies.ready_made.base import MODEL, ReadyMade, Short, Sketch, vllm

#: Bits per weight over the whole model: a fifth of the weights, the embedding, stays in BF16.
_BITS = {"HF": 16.0, "W8A8": 9.7, "GPTQ": 7.0, "AWQ": 7.0}
_PROMPT, _ANSWER = 512, 64

WEIGHT_QUANTIZATION_VLLM = ReadyMade(
    slug="weight-quantization-vllm",
    number=18,
    title="Weight quantization on vLLM",
    question="What do checkpoints of 8 and 4 bits gain in decoding, and what do they cost in reading prompts?",
    arms=tuple(
        Sketch(
            "BF16" if form == "HF" else form,
            vllm(f"{MODEL}:{form}", max_model_len=1024, max_num_seqs=4, enable_prefix_caching=False),
            theory={"weight_bits": bits},
            precision="bf16" if form == "HF" else form.lower(),
        )
        for form, bits in _BITS.items()
    ),
    spec={
        "workload": {"input_tokens": _PROMPT, "output_tokens": _ANSWER},
        "load": {"levels": [1], "requests": 10, "warmup_s": 0},
        "power": {"idle_s": 2},
    },
    short=Short({"load": {"requests": 7}, "workload": {"output_tokens": 32}}),
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
            "context": _PROMPT + _ANSWER // 2,
            "accelerators": 1,
            "bandwidth_gb_s": 10,
            "peak_tflops": 1,
            "link_gb_s": None,
            "launch_us": 0,
        },
    },
    quality=BASIC,
    repeats=3,
    smallest=10,
    look_for="TPOT falls with the bytes of a step only where a step waits for its weights and the kernel reads them "
    "packed. Where it unpacks 4 bits to 16 before the arithmetic, TPOT and TTFT are no better than in BF16, or worse. "
    "W8A8 computes in 8 bits: it gains most in reading prompts, and only where the processor has 8-bit units.",
    limits="The checkpoints have the layouts of GPTQ and AWQ and were filled by rounding to the nearest: the speed is "
    "that of the layouts, the quality is not that of the methods, which the quantization lab compares. On a CPU with "
    "AMX, vLLM rounds the activations of 4-bit checkpoints to 8 bits unless VLLM_CPU_INT4_W4A8=0 is set: GPTQ and AWQ "
    "are then W4A8, on other CPUs W4A16. A fifth of this small model is its embedding, which stays in 16 bits. FP8 and "
    "FP4 need hardware that has them.",
)
