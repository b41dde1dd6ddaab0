"""12: a small model for easy requests and a large one for hard ones, by the way of telling them apart."""

from typing import Any

from observatory.studies.questions import BASIC
from observatory.studies.ready_made.base import MODEL, Json, ReadyMade, Short, Sketch, llamacpp, router

_LARGE = llamacpp(f"{MODEL}:F16", n_parallel=1, n_ctx=2048)
_SMALL = llamacpp(f"{MODEL}:Q4_0", n_parallel=1, n_ctx=2048)
#: Prompts of 40 to 72 tokens hold about 9 to 41 words beside the chat template: half of them are longer.
_WORDS = 25
#: Of such prompts the small model answers half with a higher mean log probability, in nats.
_SURE = -0.9


def _routed(name: str, policy: str, before: bool, **options: Any) -> Sketch:
    theory: Json = {"escalated_share": "arm.sent_on_share", "decide_before": before}
    return Sketch(name, router(policy, _SMALL, _LARGE, **options), theory=theory, precision="q4_0 and f16")


ROUTING = ReadyMade(
    slug="routing",
    number=12,
    title="Routing small and large",
    question="What does a request cost when a small model takes the easy ones, and which way of choosing costs least?",
    arms=(
        Sketch("large alone", _LARGE, theory={"escalated_share": 1, "decide_before": True}, precision="f16"),
        Sketch("small alone", _SMALL, theory={"escalated_share": 0, "decide_before": True}, precision="q4_0"),
        _routed("rules", "rules", True, max_words=_WORDS),
        _routed("classifier", "classifier", True, hard_probability=0.88),
        _routed("confidence", "confidence", False, min_logprob=_SURE),
    ),
    spec={
        "workload": {"input_tokens": {"shape": "uniform", "low": 40, "high": 72}, "output_tokens": 48},
        "load": {"levels": [1], "requests": 32, "warmup_s": 0},
        "power": {"idle_s": 2},
    },
    short=Short({"load": {"requests": 7}, "workload": {"output_tokens": 24}}, arms=("large alone", "confidence")),
    measures=(
        {"metric": "e2e_ms", "statistic": "mean"},
        {"metric": "ttft_ms", "statistic": "mean"},
        {"metric": "j_per_output_token"},
    ),
    prediction={
        "calculator": "routing",
        "output": "usd_per_query",
        "as": "ratio",
        # The time of a request is what it costs here; 4 bits take about half the time of 16 on two cores.
        "inputs": {"large_usd": 1.0, "small_usd": 0.5, "decider_usd": 0},
    },
    quality=BASIC,
    look_for="Choosing beforehand costs the mean of the two models by their shares. Asking the small one first pays "
    "for it each time: it gains only while few requests are sent on, and a held answer comes at once, at its end: the "
    "time to the first token becomes that of the whole answer. The share that was sent on is the router's own count.",
    limits="The prompts are made up: they differ in length and not in difficulty, so that this shows what routing "
    "costs and not how well it chooses. The questions do differ, and show what is lost where the small model answers. "
    "It is the large one in 4 bits here, about half as dear; between real models the factor is 10 and more.",
)
