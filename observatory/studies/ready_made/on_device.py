"""16: threads and precision against the energy of a token."""

from observatory.studies.questions import BASIC
from observatory.studies.ready_made.base import MODEL, ReadyMade, Short, Sketch, llamacpp

_BITS = {"F16": 16.0, "Q8_0": 8.5, "Q4_0": 4.5}


def _arm(form: str, threads: int) -> Sketch:
    return Sketch(
        f"{form}, {threads} thread{'s' if threads > 1 else ''}",
        llamacpp(f"{MODEL}:{form}", threads, n_parallel=1, n_ctx=2048),
        theory={"weight_bits": _BITS[form]},
        precision=form.lower(),
    )


ON_DEVICE = ReadyMade(
    slug="on-device",
    number=16,
    title="On the device",
    question="Which threads and which precision take the least energy for a token?",
    arms=(_arm("F16", 2), _arm("F16", 1), _arm("Q8_0", 2), _arm("Q8_0", 1), _arm("Q4_0", 2), _arm("Q4_0", 1)),
    spec={
        "workload": {"input_tokens": 32, "output_tokens": 96},
        "load": {"levels": [1], "requests": 60, "duration_s": 32, "warmup_s": 2},
        "power": {"idle_s": 5},
    },
    short=Short(
        {
            "load": {"requests": 8, "duration_s": 12, "warmup_s": 0},
            "workload": {"output_tokens": 32},
            "power": {"idle_s": 2},
        },
        arms=("F16, 2 threads", "Q4_0, 2 threads"),
    ),
    measures=(
        {"metric": "j_per_output_token"},
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "power_w"},
    ),
    prediction={
        "calculator": "on-device",
        "output": "j_per_token",
        "as": "ratio",
        "inputs": {"parameters_b": 0.1345},
    },
    quality=BASIC,
    look_for="Fewer bits take less energy because a token takes less time. A second thread is worth its power only "
    "where it brings speed; theory, which knows bytes alone, expects no difference.",
    limits="Where no counter can be read, power is modelled from the load of the CPU: then this compares times, not "
    "joules. A phone's limits of heat do not show on a server.",
)
