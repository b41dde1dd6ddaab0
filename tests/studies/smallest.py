"""The smallest form of the ready-made studies of llama.cpp: all that a user's trial does, on a model of two layers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from observatory.studies.ready_made import BY_SLUG, ReadyMade
from observatory.studies.ready_made.base import MODEL, Json, laid_over
from runners.metrics import PERCENTILE_MIN_N

LAYERS = 2
QUESTIONS = 3
#: The fewest of which there is a median.
_REQUESTS = PERCENTILE_MIN_N["p50"]
#: Neither warm-up, nor the client's own error, nor idle power: each is measured by tests of its own.
_EACH: Json = {
    "load": {"requests": _REQUESTS, "warmup_s": 0, "calibrate_s": 0},
    "workload": {"output_tokens": 8},
    "power": {"idle_s": 0},
}
_OWN: Mapping[str, Json] = {
    "continuous-batching": {"load": {"levels": [4], "requests": 8}, "workload": {"input_tokens": 64}},
    "prefill-interference": {"workload": {"input_tokens": {"shape": "uniform", "low": 64, "high": 512}}},
    "cache-quantization": {"workload": {"input_tokens": 128}},
    "smaller-model": {"workload": {"input_tokens": 48}},
    # N-grams have to come again before they are guessed.
    "speculative-decoding": {"workload": {"output_tokens": 256}},
    # Energy has no number for a window of fewer than 20 updates of its instrument, however fast the machine is.
    "on-device": {"load": {"requests": 1000, "duration_s": 4}, "workload": {"output_tokens": 32}},
    "reasoning-length": {"load": {"requests": 1000, "duration_s": 4}},
    # Two prefixes, one request at a time: round robin has both read by both, affinity each by one.
    "load-balancing": {
        "load": {"requests": 16, "levels": [1]},
        "workload": {
            "output_tokens": 4,
            "source": {"kind": "prefixes", "groups": 2, "prefix_tokens": 320, "zipf": 0},
        },
    },
}
#: Its arms are layers left out: of the whole model, or it would be another study.
_OF_THE_WHOLE_MODEL = "smaller-model"


def smallest(slug: str) -> ReadyMade:
    ready = BY_SLUG[slug].shortened()
    arms = ready.arms
    if slug != _OF_THE_WHOLE_MODEL:
        arms = tuple(replace(arm, recipe=_with_few_layers(arm.recipe)) for arm in arms)
    quality = {**ready.quality, "questions": QUESTIONS, "output_tokens": 8} if ready.quality else {}
    return replace(
        ready, arms=arms, spec=laid_over(laid_over(ready.spec, _EACH), _OWN.get(slug, {})), quality=quality, repeats=1
    )


def _with_few_layers(part: Any) -> Any:
    """Every model that is named in a recipe, in a form of so many layers."""
    if isinstance(part, Mapping):
        return {name: _with_few_layers(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [_with_few_layers(value) for value in part]
    if not isinstance(part, str) or part.partition(":")[0] != MODEL:
        return part
    form, *rest = part.split(":")[1:] or ["Q4_1"]
    return ":".join([MODEL, form, f"layers={LAYERS}", *(word for word in rest if not word.startswith("layers="))])
