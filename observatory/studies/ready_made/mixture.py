"""13: a mixture of experts against a dense model of equal active size, alone and in a batch."""

from observatory.studies.ready_made.base import MODEL, Json, ReadyMade, Short, Sketch, llamacpp

_EXPERTS, _USED = 8, 2
_TOTAL_B, _ACTIVE_B = 0.3735, 0.1347
_BATCHES = (1, 8)
_MODELS: dict[str, tuple[str, Json]] = {
    "dense": ("F16", {}),
    f"{_EXPERTS} experts, {_USED} used": (
        f"F16:experts={_EXPERTS}",
        {"parameters_b": _TOTAL_B, "active_b": _ACTIVE_B, "experts": _EXPERTS, "experts_active": _USED},
    ),
    "dense of the same total": (f"F16:width={_EXPERTS // _USED}", {"parameters_b": _TOTAL_B, "active_b": _TOTAL_B}),
}


def _arm(name: str, batch: int) -> Sketch:
    form, theory = _MODELS[name]
    return Sketch(
        f"{name}, {batch} in flight",
        llamacpp(f"{MODEL}:{form}", n_parallel=max(_BATCHES), n_ctx=4096),
        spec={"load": {"levels": [batch]}},
        theory={**theory, "batch": batch},
        precision="f16",
    )


MIXTURE = ReadyMade(
    slug="mixture-of-experts",
    number=13,
    title="Mixture of experts",
    question="Is a mixture of experts as fast as a dense model of its active size, alone and in a batch?",
    arms=tuple(_arm(name, batch) for batch in _BATCHES for name in _MODELS),
    spec={
        "workload": {"input_tokens": 64, "output_tokens": 48},
        "load": {"requests": 16, "warmup_s": 1},
        "power": {"idle_s": 2},
    },
    short=Short(
        {"load": {"requests": 7, "warmup_s": 0}, "workload": {"output_tokens": 24}},
        arms=tuple(f"{name}, 1 in flight" for name in _MODELS),
    ),
    measures=(
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "output_tokens_per_s"},
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "j_per_output_token"},
    ),
    prediction={
        "calculator": "decode-limit",
        "output": "step_ms",
        "as": "ratio",
        "inputs": {
            "context": 88,
            "accelerators": 1,
            # One pass of the dense model reads 0.269 GB; a prompt token takes 2 x 0.1345e9 operations, u is 0.5.
            "bandwidth_gb_s": "baseline.decode_steps_per_s * 0.269",
            "peak_tflops": "baseline.prefill_tokens_per_s * 0.000538",
            "link_gb_s": None,
            "launch_us": 0,
        },
    },
    repeats=3,
    smallest=10,
    look_for="Alone the mixture takes about the time of the dense model of its active size, though nearly three times "
    "as much lies in memory. In a batch the tokens choose different experts: a step then reads nearly all of them, "
    "and the mixture moves towards the dense model of the same total.",
    limits="The experts are halves of the dense model's own layers, and the router was drawn at random: the speed is "
    "that of a mixture, and what it answers is worthless. One machine holds all experts: what uneven loads and "
    "transfers between accelerators cost is for the calculators of mixtures and of parallelism.",
)
