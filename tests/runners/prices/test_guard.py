"""The command line asks a paid endpoint for nothing before its worst case is known and allowed."""

import argparse

import pytest

from runners import bench_cli
from runners.budget import Billing, Budget
from runners.prices.guard import Asked, refuse_unguarded
from runners.quality import cli as quality_cli
from runners.spec import RunSpec, SpecError

OPENAI = ("--url", "https://api.openai.com/v1", "--model", "gpt-4o")


def spec(*options, of=bench_cli):
    parser = argparse.ArgumentParser()
    of.add_arguments(parser)
    return of.spec_of(parser.parse_args(["--out", "x", *options]))


def test_a_paid_endpoint_is_refused_with_its_worst_case_and_what_to_say():
    """5 x (1.25 x 128 + 64) + 10,000 at 2.5 $/M, 5 x 128 + 160 at 10 $/M: 0.0358 $."""
    with pytest.raises(SpecError) as refused:
        spec(*OPENAI, "--requests", "5")
    words = str(refused.value)
    assert "openai charges for each token at this address" in words
    assert "--max-usd 0.0358 lets it start" in words
    assert "OpenAI list price of gpt-4o" in words
    assert "--billing free" in words


def test_with_a_cap_the_list_price_bounds_the_run():
    budget = spec(*OPENAI, "--requests", "5", "--max-usd", "0.0358", "--month-usd", "7").budget
    assert (budget.input_usd_per_mtok, budget.output_usd_per_mtok, budget.month_usd) == (2.5, 10, 7)
    assert budget.billing is Billing.TOKENS
    with pytest.raises(SpecError, match=r"may cost up to \$0.0358 and \$0.03 are allowed"):
        spec(*OPENAI, "--requests", "5", "--max-usd", "0.03")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "x-9", "--max-usd", "1"), "its price is unknown. No list price is known for openai/x-9"),
        (("--model", "x-9", "--max-usd", "1"), "--usd-per-mtok IN,OUT"),
        (("--model", "gpt-4o", "--duration", "5"), "Say how many requests"),
        (("--model", "gpt-4o", "--duration", "5", "--max-usd", "1"), "load.requests"),
        (("--model", "gpt-4o", "--billing", "free", "--max-usd", "1"), "leave it out, or leave out --max-usd"),
        (("--model", "gpt-4o", "--workload", "conversations", "--requests", "5"), "made-up prompts"),
    ],
)
def test_what_is_unknown_or_has_no_bound_does_not_start(options, words):
    with pytest.raises(SpecError, match=words):
        spec("--url", "https://api.openai.com/v1", *options)


@pytest.mark.parametrize("said", [("--prices", "openai/gpt-4o"), ("--usd-per-mtok", "2.5,10")])
def test_a_price_by_another_name_or_by_hand_lets_it_start(said):
    named = ("--url", "https://api.openai.com", "--model", "x-9", "--requests", "1")
    budget = spec(*named, "--max-usd", "1", *said).budget
    assert (budget.input_usd_per_mtok, budget.output_usd_per_mtok) == (2.5, 10)


def test_whoever_says_that_nothing_is_charged_by_the_token_is_believed():
    for said in ("free", "machine"):
        assert spec(*OPENAI, "--billing", said).budget == Budget(billing=Billing(said))


def test_loopback_is_not_paid_unless_it_is_said():
    local = ("--url", "http://127.0.0.1:8000", "--model", "gpt-4o", "--requests", "1")
    assert spec(*local).budget == Budget()
    with pytest.raises(SpecError, match="said to charge by the token: say what the run may cost"):
        spec(*local, "--billing", "tokens")
    assert spec(*local, "--max-usd", "1").budget.billing is Billing.TOKENS


def test_a_specification_without_a_budget_is_refused_for_a_paid_endpoint():
    asked = [Asked("https://api.openai.com/v1", ("gpt-4o",))]
    with pytest.raises(SpecError, match="budget: openai charges for each token"):
        refuse_unguarded(Budget(), asked)
    refuse_unguarded(Budget(1, 1, 1), asked)
    refuse_unguarded(Budget(billing=Billing.FREE), asked)
    refuse_unguarded(Budget(), [Asked("http://127.0.0.1", ("gpt-4o",))])


def test_a_guarded_specification_comes_back_from_json():
    found = spec(*OPENAI, "--requests", "5", "--max-usd", "1")
    assert RunSpec.from_json(found.to_json()) == found


def test_an_evaluation_is_guarded_alike_its_reference_too():
    with pytest.raises(SpecError, match="--max-usd: openai charges"):
        spec(*OPENAI, of=quality_cli)
    local = ("--url", "http://127.0.0.1:8000", "--model", "a")
    with pytest.raises(SpecError, match="--max-usd: openai charges"):
        spec(*local, "--reference", "https://api.openai.com/v1,gpt-4o", of=quality_cli)
    assert spec(*local, of=quality_cli).budget == Budget()
    assert spec(*OPENAI, "--max-usd", "5", of=quality_cli).budget.output_usd_per_mtok == 10
