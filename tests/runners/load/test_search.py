"""Searches against servers whose truth is known: they find it, and say how sure they are."""

import random

import pytest

from runners.load.search import course_of
from runners.load.statistics import share_low
from runners.spec import Arrivals, Goal, Load, RunSpec, Search, Slo, Target


def spec(goal=Goal.SLO, levels=(1.0,), arrivals=Arrivals.CLOSED, requests=100, **search):
    load = Load(arrivals, levels, requests, search=Search(goal, **search))
    return RunSpec(Target("http://h"), load=load, slo=Slo(ttft_ms=100))


def run(asked, server, verdicts=lambda level: "ok", queued=lambda level: None):
    """All levels that were tried, and the findings. ``server``: (level, requests) -> metrics. ``queued``: level ->
    requests in the server's queue, where it tells it."""
    course, tried = course_of(asked), []
    while (plan := course.next()) is not None:
        tried.append(plan.level)
        metrics = {key: {"mean": value} for key, value in server(plan.level, plan.requests).items()}
        gauge = {} if queued(plan.level) is None else {"requests_queued": {"mean": queued(plan.level)}}
        stage = {"load": plan.load, "planned": plan.requests, "metrics": metrics, "verdict": verdicts(plan.level)}
        course.add(stage | {"server": {"gauges": gauge}})
    return tried, course.findings()


def sharp(limit):
    """Every request meets the SLO up to ``limit``, none beyond it."""
    return lambda level, requests: {"goodput_share": 100.0 if level <= limit else 0.0}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 23, 100])
def test_the_highest_whole_concurrency_within_the_slo_is_found_and_confirmed(limit):
    tried, found = run(spec(tolerance=0.001, max_stages=40), sharp(limit))
    result = found["max_load_under_slo"]
    assert (result["value"], result["low"], result["high"]) == (limit, limit, limit + 1)
    assert result["confirmed"]
    assert result["share_low"] >= 0.95
    assert tried[-1] == limit
    assert len(tried) < 20


def test_a_rate_is_found_to_the_tolerance():
    _, found = run(spec(arrivals=Arrivals.POISSON, levels=(1.0,), tolerance=0.05), sharp(13.7))
    result = found["max_load_under_slo"]
    assert result["low"] <= 13.7 < result["high"]
    assert result["high"] / result["low"] <= 1.05
    assert result["kind"] == "rate"


def test_a_start_that_is_too_high_is_searched_downward():
    _, found = run(spec(levels=(64.0,), tolerance=0.001), sharp(5))
    assert found["max_load_under_slo"]["value"] == 5


def test_where_even_one_request_at_a_time_is_too_much_that_is_the_finding():
    tried, found = run(spec(levels=(4.0,)), sharp(0))
    assert tried == [4, 2, 1]
    assert found["max_load_under_slo"]["value"] is None
    assert found["max_load_under_slo"]["text"] == (
        "no load was found with 95% of the requests within the SLO: concurrency 1 is too much already"
    )


def test_no_more_is_tried_than_was_allowed_and_that_is_said():
    tried, found = run(spec(levels=(1.0, 6.0)), sharp(50))
    assert max(tried) == 6
    assert (found["max_load_under_slo"]["value"], found["max_load_under_slo"]["limited_by"]) == (6, "most")
    assert found["max_load_under_slo"]["confirmed"]


def test_a_load_at_the_edge_is_not_confirmed_and_the_next_lower_one_is():
    edge = {1.0: 100.0, 2.0: 100.0, 3.0: 96.0, 4.0: 90.0}
    tried, found = run(spec(tolerance=0.001), lambda level, _: {"goodput_share": edge[level]})
    assert tried == [1, 2, 4, 3, 3, 2]
    assert (found["max_load_under_slo"]["low"], found["max_load_under_slo"]["high"]) == (2, 4)


def test_too_few_requests_confirm_nothing_and_the_words_say_how_many_it_takes():
    asked = RunSpec(
        Target("http://h"),
        load=Load(levels=(1.0, 2.0), duration_s=1.0, search=Search(Goal.SLO)),
        slo=Slo(ttft_ms=100),
    )
    course = course_of(asked)
    while (plan := course.next()) is not None:
        metrics = {"goodput_share": {"mean": 100.0}}
        course.add({"load": plan.load, "planned": 20, "metrics": metrics, "verdict": "ok"})
    found = course.findings()
    assert not found["max_load_under_slo"]["confirmed"]
    assert found["max_load_under_slo"]["low"] is None
    assert "59 requests" in found["max_load_under_slo"]["text"]


def test_a_confirmation_gets_enough_requests_to_allow_for_some_that_fail():
    course = course_of(spec(levels=(1.0, 1.0), requests=10))
    first = course.next()
    course.add({"load": first.load, "planned": 10, "metrics": {"goodput_share": {"mean": 100.0}}, "verdict": "ok"})
    assert (first.requests, course.next().requests) == (10, 89)


def test_a_load_generator_at_its_limit_ends_the_search_and_is_named():
    tried, found = run(spec(), sharp(500), lambda level: "client_limited" if level >= 32 else "ok")
    result = found["max_load_under_slo"]
    assert tried == [1, 2, 4, 8, 16, 32, 32, 16]
    assert (result["value"], result["limited_by"]) == (16, "client")


def test_a_hiccup_of_the_load_generator_does_not_end_a_search():
    hiccups = iter(["ok", "client_limited", "ok"] + ["ok"] * 20)
    tried, found = run(spec(tolerance=0.001), sharp(2), lambda level: next(hiccups))
    assert tried[:4] == [1, 2, 2, 4]
    assert (found["max_load_under_slo"]["value"], found["max_load_under_slo"]["limited_by"]) == (2, None)


def test_the_budget_of_stages_is_kept():
    tried, found = run(spec(max_stages=3), sharp(500))
    assert len(tried) == 3
    assert "used up" in found["max_load_under_slo"]["text"]


def test_at_a_noisy_edge_what_is_claimed_holds_in_nineteen_of_twenty_searches():
    """True share of requests within the SLO: 99 % at 10 and falling by 1.5 points a level."""
    chance, wrong = random.Random(1), 0
    for _ in range(200):

        def noisy(level, requests):
            truth = min(1.0, 0.99 - 0.015 * (level - 10))
            return {"goodput_share": 100 * sum(chance.random() < truth for _ in range(requests)) / requests}

        _, found = run(spec(levels=(8.0,), tolerance=0.01, requests=200), noisy)
        claimed = found["max_load_under_slo"]["low"]
        wrong += claimed is not None and 0.99 - 0.015 * (claimed - 10) < 0.95
    assert wrong <= 14


# saturation


def plateau(capacity, base_ms=50.0):
    """Throughput rises with concurrency up to ``capacity``; beyond it requests queue."""
    return lambda level, _: {
        "output_tokens_per_s": 100.0 * min(level, capacity),
        "ttft_ms": base_ms * max(1.0, level / capacity),
    }


def test_saturation_is_where_throughput_stops_rising_while_the_queue_grows():
    tried, found = run(spec(Goal.SATURATION), plateau(12))
    assert tried == [1, 2, 4, 8, 16, 32]
    result = found["saturation"]
    assert (result["low"], result["value"], result["high"], result["found"]) == (8, 16, 32, True)
    assert result["throughput"] == 1200


def evidence(found):
    return [item["of"] for item in found["saturation"]["evidence"]]


def test_without_a_queue_that_is_told_ttft_is_the_evidence_and_that_is_said():
    _, found = run(spec(Goal.SATURATION), plateau(12))
    assert evidence(found) == ["ttft_ms"]
    assert not found["saturation"]["queue_known"]
    assert found["saturation"]["text"] == (
        "throughput stops rising beyond concurrency 16: TTFT rose from 66.7 to 133 ms; "
        "the queue of the server is not known"
    )


def test_a_queue_that_grows_in_the_server_is_evidence_although_ttft_stays():
    steady, waiting = {"ttft_ms": 50.0}, lambda level: max(0, level - 12)
    tried, found = run(spec(Goal.SATURATION), lambda *asked: plateau(12)(*asked) | steady, queued=waiting)
    assert tried == [1, 2, 4, 8, 16, 32]
    assert found["saturation"]["evidence"] == [{"of": "queue", "before": 4.0, "after": 20.0}]
    assert "the server's queue grew from 4.0 to 20.0 requests" in found["saturation"]["text"]


def test_queue_and_ttft_are_both_named():
    _, found = run(spec(Goal.SATURATION), plateau(12), queued=lambda level: max(0, level - 12))
    assert evidence(found) == ["queue", "ttft_ms"]


def test_a_queue_that_stays_empty_is_said_beside_the_ttft_that_rose():
    _, found = run(spec(Goal.SATURATION), plateau(12), queued=lambda level: 0.3)
    assert evidence(found) == ["ttft_ms"]
    assert found["saturation"]["text"].endswith("; the server's queue did not grow")


def test_no_gain_twice_is_evidence_where_nothing_else_rises():
    server = plateau(12)
    tried, found = run(spec(Goal.SATURATION), lambda *asked: server(*asked) | {"ttft_ms": 50.0})
    assert tried[-1] == 64
    assert evidence(found) == ["throughput"]
    assert (found["saturation"]["value"], found["saturation"]["high"]) == (16, 32)


def test_a_server_that_is_not_saturated_within_the_levels_allowed_is_said_to_be_so():
    tried, found = run(spec(Goal.SATURATION, levels=(1.0, 8.0)), plateau(100))
    assert tried == [1, 2, 4, 8]
    assert not found["saturation"]["found"]
    assert found["saturation"]["text"] == "not saturated up to concurrency 8"


def test_failures_end_the_search_for_saturation():
    tried, found = run(spec(Goal.SATURATION), plateau(100), lambda level: "failed" if level > 4 else "ok")
    assert tried == [1, 2, 4, 8]
    assert found["saturation"]["found"]
    assert evidence(found) == ["failures"]


# the bound


def test_the_lower_bound_is_that_of_clopper_and_pearson():
    assert share_low(59, 59) == pytest.approx(0.05 ** (1 / 59))
    assert share_low(95, 100) == pytest.approx(0.8978, abs=1e-3)
    assert share_low(0, 10) == 0
    assert share_low(99_000, 100_000) == pytest.approx(0.98947, abs=1e-4)


def test_fifty_nine_of_fifty_nine_confirm_ninety_five_percent_and_fifty_eight_do_not():
    assert Search(Goal.SLO).least_requests == 59
    assert share_low(59, 59) >= 0.95 > share_low(58, 58)
