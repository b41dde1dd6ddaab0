"""A run whose worst case is unknown or too dear is refused wherever its specification is read."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.budget import Budget, longest_input, worst_case_usd
from runners.spec import Load, RunSpec, SpecError, Target, Workload


def spec(budget, requests=10, warmup_s=0.0, duration_s=None, levels=(1.0,)):
    load = Load(levels=levels, requests=requests, duration_s=duration_s, warmup_s=warmup_s)
    return RunSpec(Target("http://x"), Workload(100, 50), load, budget=budget)


def test_without_a_budget_nothing_is_asked():
    assert spec(Budget(), requests=None, duration_s=10.0).budget.max_usd is None


def test_a_bounded_run_is_accepted_and_comes_back_from_json():
    found = spec(Budget(0.02, 1, 2, "list"))
    assert RunSpec.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("budget", "more", "words"),
    [
        (Budget(0.01, 1, 2), {}, "may cost up to \\$0.0132 and \\$0.01 are allowed"),
        (Budget(0.02, 1, 2), {"levels": (1.0, 2.0, 4.0, 8.0)}, "fewer stages"),
        (Budget(1, None, 2), {}, "is unknown"),
        (Budget(1, 1, None), {}, "is unknown"),
        (Budget(1, 1, 2), {"requests": None, "duration_s": 10.0}, "load.requests"),
        (Budget(1, 1, 2), {"warmup_s": 1.0}, "load.warmup_s"),
    ],
)
def test_a_run_that_may_cost_more_or_has_no_bound_is_refused(budget, more, words):
    with pytest.raises(SpecError, match=words):
        spec(budget, **more)


tokens, rates = st.integers(1, 10**6), st.decimals(0, 1000, places=4)


@given(st.integers(1, 10**5), tokens, tokens, rates, rates)
def test_no_run_of_the_stated_lengths_costs_more_than_the_worst_case(requests, given_tokens, made, usd_in, usd_out):
    worst = worst_case_usd(usd_in, usd_out, requests=requests, input_tokens=given_tokens, output_tokens=made)
    assert worst >= requests * (given_tokens * usd_in + made * usd_out) / Decimal(1_000_000)


@given(tokens)
def test_the_longest_prompt_is_never_shorter_than_asked(asked):
    assert longest_input(asked) > asked
