"""10: what guessing ahead buys, by the way of guessing."""

from typing import Any

from observatory.studies.questions import BASIC
from observatory.studies.ready_made.base import MODEL, Json, ReadyMade, Short, Sketch, llamacpp

_TARGET = f"{MODEL}:F16"
_DRAFTED = 4


def _draft(model: str) -> Json:
    options: dict[str, Any] = {
        "speculative__types": ["DRAFT_SIMPLE"],
        "speculative__draft__mparams__path": model,
        "speculative__draft__n_max": _DRAFTED,
    }
    return llamacpp(_TARGET, n_parallel=1, n_ctx=2048, **options)


#: Cost of a draft step against one of the target: bits of the draft / bits of the target.
_OF_4_BITS, _OF_8_LAYERS = 4.5 / 16, 0.4
_ACCEPTED: Json = {"acceptance": "arm.accepted_share"}

SPECULATION = ReadyMade(
    slug="speculative-decoding",
    number=10,
    title="Speculative decoding",
    question="Which way of guessing ahead makes decoding faster, and which makes it slower?",
    arms=(
        Sketch("plain", llamacpp(_TARGET, n_parallel=1, n_ctx=2048), theory={"drafted": 0}, precision="f16"),
        Sketch(
            "n-gram",
            llamacpp(_TARGET, n_parallel=1, n_ctx=2048, speculative__types=["NGRAM_MOD"]),
            theory={**_ACCEPTED, "draft_cost": 0, "drafted": 16},
            precision="f16",
        ),
        Sketch(
            "4-bit draft",
            _draft(f"{MODEL}:Q4_0"),
            theory={**_ACCEPTED, "draft_cost": _OF_4_BITS, "drafted": _DRAFTED},
            precision="f16",
        ),
        Sketch(
            "8-layer draft",
            _draft(f"{MODEL}:Q4_0:layers=8"),
            theory={**_ACCEPTED, "draft_cost": _OF_8_LAYERS * _OF_4_BITS, "drafted": _DRAFTED},
            precision="f16",
        ),
    ),
    spec={
        "workload": {"input_tokens": 64, "output_tokens": 256},
        "load": {"levels": [1], "requests": 12, "warmup_s": 2},
        "power": {"idle_s": 2},
    },
    # N-grams have to come again before they are guessed: answers stay as long.
    short=Short({"load": {"requests": 7, "warmup_s": 0}}, arms=("plain", "n-gram")),
    measures=(
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "e2e_ms", "statistic": "p50"},
        {"metric": "j_per_output_token"},
    ),
    prediction={
        "calculator": "speculative",
        "output": "speedup_alone",
        "as": "speedup",
        "inputs": {},
    },
    quality=BASIC,
    look_for="Acceptance comes from the server's own counters. N-grams cost nothing to draft and gain where the answer "
    "repeats itself, as that of a small model does. A draft that is nearly as dear as the target loses though "
    "almost every guess is right; one that guesses badly loses everything.",
    limits="Checking several tokens in one pass is nearly free on an accelerator; two cores are bound by arithmetic, "
    "so that a check costs about as much as its tokens one by one. The prediction leaves that out.",
)
