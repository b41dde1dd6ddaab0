"""6: how long running streams stand still while a long prompt is read."""

from observatory.studies.ready_made.base import ReadyMade, Short, Sketch, llamacpp

_CHUNKS = (2048, 512, 128)

INTERFERENCE = ReadyMade(
    slug="prefill-interference",
    number=6,
    title="Chunked prefill",
    question="How long do running streams stand still when a long prompt comes in, and what does chunking it cost?",
    arms=tuple(
        Sketch(
            f"chunks of {chunk}",
            llamacpp(n_parallel=4, n_ctx=8192, n_batch=chunk, n_ubatch=min(chunk, 512)),
            theory={"prompt_tokens": min(chunk, 1536)},
            x=chunk,
        )
        for chunk in _CHUNKS
    ),
    factor="Prompt tokens in one step",
    spec={
        "workload": {"input_tokens": {"shape": "uniform", "low": 32, "high": 1536}, "output_tokens": 48},
        "load": {"levels": [3], "requests": 30, "warmup_s": 2},
        "power": {"idle_s": 2},
    },
    short=Short(
        {"load": {"requests": 8, "warmup_s": 0}, "workload": {"output_tokens": 24}},
        arms=("chunks of 2048", "chunks of 128"),
    ),
    measures=(
        {"metric": "event_gap_ms", "statistic": "max"},
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "output_tokens_per_s"},
    ),
    prediction={
        "calculator": "prefill",
        "output": "prefill_ms",
        "as": "ratio",
        "inputs": {"accelerators": 1, "bandwidth_gb_s": 10, "peak_tflops": 0.4, "link_gb_s": None},
    },
    smallest=10,
    look_for="The worst gap of a stream falls about as the chunk; the newcomers' TTFT rises a little, because their "
    "prompt shares each step with the streams.",
    limits="The worst gap is one event of a run: repeats matter more than requests. Two prompts that come in "
    "together can double it at any chunk.",
)
