"""A real llama.cpp server with a small real model, asked a part of the set that comes along."""

from collections.abc import Callable
from typing import Any

import pytest

from runners.quality.tasks import built_in
from runners.spec import Dialect, Target


def some(every: int = 10) -> list[dict[str, Any]]:
    return list(built_in().items[::every])


def test_a_small_model_gets_some_right_and_agrees_with_itself(
    engine: tuple[str, str], evaluate: Callable[..., Any]
) -> None:
    here = Target(*engine)
    found = evaluate(here, some(), concurrency=1, reference=here)
    assert found.status == 0
    quality = found.quality
    overall = quality["score"]["overall"]
    assert overall["n"] == 10
    assert 0 < overall["low"] < overall["share"] < overall["high"] < 1
    assert quality["target"]["engine"] == "llama.cpp"
    agreement = quality["agreement"]
    assert agreement["identical"]["share"] == 1.0
    assert agreement["flips"]["p_value"] == 1.0
    assert agreement["logprobs"]["kl"]["mean"] < 0.01
    assert agreement["first_difference"]["unit"] == "tokens"


def test_answers_drawn_by_chance_do_not_agree_with_greedy_ones(
    engine: tuple[str, str], evaluate: Callable[..., Any]
) -> None:
    warm = Target(*engine, extra_body={"temperature": 1.5, "seed": 7})
    agreement = evaluate(warm, some(25), reference=Target(*engine)).quality["agreement"]
    assert agreement["identical"]["share"] < 1
    assert agreement["first_difference"]["n"] >= 1
    assert agreement["logprobs"]["places"] > 4


@pytest.mark.parametrize("dialect", [Dialect.OPENAI_COMPLETIONS, Dialect.LLAMACPP_COMPLETION])
def test_log_probabilities_are_read_in_each_form_that_has_them(
    engine: tuple[str, str], evaluate: Callable[..., Any], dialect: Dialect
) -> None:
    items = [item for item in built_in().items if item["id"] in ("choice-1", "arithmetic-1")]
    quality = evaluate(Target(*engine, dialect=dialect), items, output_tokens=8).quality
    assert quality["target"]["logprobs"] == 20
    assert quality["score"]["overall"]["n"] == 2


@pytest.mark.parametrize("dialect", [Dialect.OPENAI_RESPONSES, Dialect.ANTHROPIC_MESSAGES])
def test_forms_without_log_probabilities_are_judged_by_their_text(
    engine: tuple[str, str], evaluate: Callable[..., Any], dialect: Dialect
) -> None:
    items = [item for item in built_in().items if item["id"] in ("choice-1", "arithmetic-1")]
    quality = evaluate(Target(*engine, dialect=dialect), items, output_tokens=8).quality
    assert quality["target"]["logprobs"] == 0
    assert quality["score"]["kinds"]["numeric"]["count"] == 1
