"""2: throughput and time per token over the batch, and where arithmetic takes over."""

from observatory.studies.ready_made.base import ReadyMade, Short, Sketch, llamacpp

_BATCHES = (1, 2, 4, 8, 16)
_ENGINE = llamacpp(n_parallel=16, n_ctx=8192)

BATCHING = ReadyMade(
    slug="batching",
    number=2,
    title="Batching",
    question="How much throughput does a larger batch give, and from where on does it give no more?",
    arms=tuple(
        Sketch(f"{batch} in flight", _ENGINE, spec={"load": {"levels": [batch]}}, theory={"batch": batch}, x=batch)
        for batch in _BATCHES
    ),
    factor="Requests in flight",
    spec={
        "workload": {"input_tokens": 64, "output_tokens": 64},
        "load": {"requests": 64, "duration_s": 40, "warmup_s": 2},
        "power": {"idle_s": 2},
    },
    short=Short(
        {"load": {"requests": 16, "duration_s": 12, "warmup_s": 1}, "workload": {"output_tokens": 24}},
        arms=("1 in flight", "4 in flight"),
    ),
    measures=(
        {"metric": "output_tokens_per_s"},
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "j_per_output_token"},
    ),
    prediction={
        "calculator": "decode-limit",
        "output": "total_tokens_per_s",
        "as": "ratio",
        "inputs": {
            "context": 96,
            "accelerators": 1,
            # One pass reads 0.0841 GB of weights; a prompt token takes 2 x 0.1345e9 operations, u is 0.5.
            "bandwidth_gb_s": "baseline.decode_steps_per_s * 0.0841",
            "peak_tflops": "baseline.prefill_tokens_per_s * 0.000538",
            "link_gb_s": None,
            "launch_us": 0,
        },
    },
    smallest=10,
    look_for="Throughput rises with the batch while weights are read once for all, and flattens where arithmetic takes "
    "over; TPOT, flat at first, then rises. Energy per token falls as long as throughput rises.",
    limits="Two CPU cores turn to arithmetic at a batch of about ten; an accelerator does so at some hundreds. "
    "Reading prompts takes time from decoding here, which the prediction leaves out.",
)
