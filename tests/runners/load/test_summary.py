"""Numbers out of rows whose truth is known."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from runners.load.calibrate import Calibration
from runners.load.judgement import Client
from runners.load.plan import fixed_stages
from runners.load.records import SCHEMA
from runners.load.summary import summarise, summarise_stage
from runners.sources import Agents
from runners.spec import Account, Arrivals, Load, RunSpec, Slo, Target, Workload

MS = 1_000_000
S = 1_000_000_000
START = 10 * S


def row(sent_ms: float, *, ttft_ms=50.0, gap_ms=10.0, tokens=11, events=None, stage=0, outcome="ok", **more):
    """One request; ``tokens`` tokens in ``events`` events (one each by default) with equal gaps."""
    sent = START + round(sent_ms * MS)
    count = tokens if events is None else events
    offsets = [round((ttft_ms + gap_ms * i) * MS) for i in range(count)]
    last = sent + offsets[-1] if offsets else None
    base = dict.fromkeys(SCHEMA.names)
    return base | {
        "stage": stage, "index": 0, "warmup": False, "due_ns": sent, "ready_ns": sent, "sent_ns": sent,
        "first_token_ns": sent + offsets[0] if offsets else None, "last_token_ns": last,
        "end_ns": (last or sent) + 1 * MS, "outcome": outcome, "flags": [], "detail": "",
        "input_tokens": 100, "output_tokens": tokens, "events": count, "event_offsets_ns": offsets, "retried": False,
    } | more  # fmt: skip


def closed(concurrency: int, count: int, each_ms: float = 151.0, **more) -> list[dict[str, object]]:
    """A perfect closed loop: every request takes ``each_ms``."""
    return [row((i // concurrency) * each_ms, **more) for i in range(count)]


def table(rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def stage(rows, *, level=1.0, arrivals=Arrivals.CLOSED, client=None, **spec_parts):
    load = Load(arrivals=arrivals, levels=(level,), requests=len(rows))
    spec = RunSpec(Target("http://x"), load=load, **spec_parts)
    return summarise_stage(table(rows), fixed_stages(spec)[0], spec, client=client)


def mean(result, key):
    return result["metrics"][key]["mean"]


def test_a_known_stream_gives_known_latencies():
    result = stage(closed(1, 20))
    assert mean(result, "ttft_ms") == pytest.approx(50)
    assert mean(result, "tpot_ms") == pytest.approx(10)
    assert mean(result, "itl_ms") == pytest.approx(10)
    assert mean(result, "e2e_ms") == pytest.approx(150)
    assert mean(result, "interactivity_tokens_per_s") == pytest.approx(100)


def test_tpot_leaves_the_first_token_out_and_is_missing_for_one_token():
    result = stage([row(0, ttft_ms=1000, tokens=11), row(2000, tokens=1)])
    assert result["metrics"]["tpot_ms"]["n"] == 1
    assert mean(result, "tpot_ms") == pytest.approx(10)


def test_events_of_several_tokens_give_event_gaps_and_per_token_gaps_each_named():
    result = stage([row(0, tokens=30, events=10, gap_ms=9.6, event_tokens=[3] * 10)])
    assert mean(result, "event_gap_ms") == pytest.approx(9.6)
    assert mean(result, "itl_ms") == pytest.approx(3.2)
    assert result["metrics"]["itl_ms"]["n"] == 27


def test_a_first_event_of_many_tokens_is_not_counted_as_decoded_after_it():
    offsets = [100 * MS] + [(100 + 80 * i) * MS for i in range(1, 6)]
    request = row(0, tokens=48, events=6, event_tokens=[8] * 6) | {
        "event_offsets_ns": offsets, "first_token_ns": START + offsets[0], "last_token_ns": START + offsets[-1],
        "end_ns": START + 600 * MS,
    }  # fmt: skip
    assert mean(stage([request]), "tpot_ms") == pytest.approx(10)


def test_gaps_and_times_per_token_stay_within_one_choice():
    # two choices, 20 ms a token each, 5 ms apart; the first event of each holds two tokens, the others one
    starts = {0: 50.0, 1: 55.0}
    events = sorted((starts[choice] + 20 * i, choice, 2 if i == 0 else 1) for choice in (0, 1) for i in range(6))
    request = row(0, tokens=14, events=12) | {
        "event_offsets_ns": [round(at * MS) for at, _, _ in events],
        "event_choices": [choice for _, choice, _ in events],
        "event_tokens": [tokens for _, _, tokens in events],
        "first_token_ns": START + 50 * MS, "last_token_ns": START + 155 * MS, "end_ns": START + 156 * MS,
    }  # fmt: skip
    result = stage([request, row(500)])
    single, both = (result["metrics"][name] for name in ("tpot_ms", "event_gap_ms"))
    assert (single["min"], single["max"]) == pytest.approx((10, 20))
    assert both["n"] == 10 + 10
    assert (both["min"], both["max"]) == pytest.approx((10, 20))


def test_choices_without_told_tokens_count_one_token_for_the_first_event_of_each():
    request = row(0, tokens=8, events=8) | {
        "event_offsets_ns": [(50 + 10 * (i // 2)) * MS for i in range(8)], "event_choices": [0, 1] * 4,
        "first_token_ns": START + 50 * MS, "last_token_ns": START + 80 * MS, "end_ns": START + 81 * MS,
    }  # fmt: skip
    result = stage([request])
    assert mean(result, "tpot_ms") == pytest.approx(10)
    assert mean(result, "ttft_ms") == pytest.approx(50)


def test_gaps_within_one_read_make_inter_token_latency_not_observable():
    result = stage([row(0, tokens=11, gap_ms=0.0)])
    assert "itl_ms" not in result["metrics"]
    assert "itl_not_observable" in {item["code"] for item in result["reasons"]}


def test_rates_count_what_fell_inside_the_steady_window():
    result = stage(closed(4, 200, each_ms=151.0), level=4.0)
    assert result["window"]["kind"] == "steady"
    assert mean(result, "request_per_s") == pytest.approx(4 / 0.151, rel=0.03)
    assert mean(result, "output_tokens_per_s") == pytest.approx(44 / 0.151, rel=0.03)
    assert mean(result, "input_tokens_per_s") == pytest.approx(400 / 0.151, rel=0.03)
    assert mean(result, "achieved_concurrency") == pytest.approx(4, rel=0.03)


def test_too_few_requests_for_a_steady_window_use_the_whole_stage_and_say_so():
    result = stage(closed(4, 4), level=4.0)
    assert result["window"]["kind"] == "whole"
    assert "window_whole" in {item["code"] for item in result["reasons"]}
    assert mean(result, "request_per_s") == pytest.approx(4 / 0.151, rel=0.01)


def test_warmup_requests_are_load_but_not_planned_and_not_in_latencies():
    rows = [r | {"warmup": i < 10, "sent_ns": r["sent_ns"]} for i, r in enumerate(closed(1, 30))]
    rows[0]["first_token_ns"] += 40 * MS
    result = stage(rows)
    assert result["planned"] == 20
    assert result["metrics"]["ttft_ms"]["max"] == pytest.approx(50)


def test_failures_stand_beside_latencies_and_never_in_them():
    good = closed(1, 50)
    bad = [row(i * 10, outcome="http_error", tokens=0, events=0, detail="503 busy") for i in range(50)]
    result = stage(good + bad)
    assert (result["planned"], result["ok"], result["failed"]) == (100, 50, 50)
    assert result["metrics"]["ttft_ms"]["n"] == 50
    assert result["failures"]["http_error"]["count"] == 50
    assert "503" in result["failures"]["http_error"]["example"]
    assert result["verdict"] == "failed"


def test_without_one_success_the_report_is_written_and_nothing_is_zero():
    result = stage([row(0, outcome="connect_refused", tokens=0, events=0, sent_ns=None, end_ns=START)] * 5)
    assert result["verdict"] == "failed"
    assert not {"ttft_ms", "request_per_s", "output_tokens_per_s"} & set(result["metrics"])
    assert mean(result, "success_share") == 0


@pytest.mark.parametrize(
    "outcomes", [["ok"] * 3, ["ok", "cancelled", "not_sent", "timeout_idle", "reset"], ["not_sent"]]
)
def test_planned_is_always_the_sum_of_its_parts(outcomes):
    result = stage([row(i, outcome=outcome) for i, outcome in enumerate(outcomes)])
    assert result["planned"] == sum(result[name] for name in ("ok", "failed", "cancelled", "not_sent")) == len(outcomes)


def test_goodput_needs_every_bound():
    rows = [row(i * 151, ttft_ms=50 if i % 2 else 80) for i in range(40)]
    result = stage(rows, slo=Slo(ttft_ms=60, tpot_ms=11))
    assert mean(result, "goodput_share") == pytest.approx(50)
    assert mean(stage(rows, slo=Slo(ttft_ms=60, tpot_ms=9)), "goodput_share") == 0


def test_lag_of_an_open_loop_is_shown_and_latency_from_schedule_holds_it():
    rows = [r | {"due_ns": r["sent_ns"] - 30 * MS} for r in closed(1, 100)]
    result = stage(rows, level=6.0, arrivals=Arrivals.CONSTANT, client=Client())
    assert mean(result, "ttft_from_schedule_ms") == pytest.approx(80)
    assert mean(result, "lag_ms") == pytest.approx(30)
    assert result["verdict"] == "client_limited"


def test_a_load_generator_without_ports_or_descriptors_is_at_its_limit_and_the_endpoint_is_not_blamed():
    rows = closed(1, 20) + [row(3100, outcome="client_saturated", tokens=0, events=0)] * 5
    result = stage(rows, client=Client(stop_reason="client_saturated"))
    assert result["verdict"] == "client_limited"
    assert result["reasons"][0]["code"] == "client_saturated"
    assert "not the server's fault" in result["reasons"][0]["text"]


CALIBRATED = Calibration("concurrency", 1, 1000.0, None, None, None, busy_share=0.5, cpu_us_per_event=9.0)


@pytest.mark.parametrize(
    ("code", "seen", "late_ms", "verdict"),
    [
        ("client_capped", {"busy_share": 0.5, "capped": True}, 0, "client_limited"),
        ("client_busy", {"busy_share": 0.95}, 0, "client_limited"),
        ("client_waited", {"busy_share": 0.5, "waited_share": 0.2}, 0, "ok"),
        ("client_lag", {"busy_share": 0.5}, 30, "client_limited"),
        ("client_saturated", {"busy_share": 0.5, "stop_reason": "client_saturated"}, 0, "client_limited"),
    ],
)
def test_each_limit_of_the_client_says_what_it_could_have_held(code, seen, late_ms, verdict):
    """73 events came in a second, and nine tenths of a core may be used."""
    rows = [r | {"due_ns": r["sent_ns"] - late_ms * MS} for r in closed(1, 40)]
    result = stage(rows, client=Client(**seen))
    (text,) = (item["text"] for item in result["reasons"] if item["code"] == code)
    assert result["verdict"] == verdict
    assert text.endswith(f"it can hold about {131 if seen['busy_share'] == 0.5 else 69} events/s")


def test_what_the_client_could_have_held_is_left_out_where_nothing_tells_it():
    result = stage(closed(1, 40), client=Client(capped=True))
    (text,) = (item["text"] for item in result["reasons"] if item["code"] == "client_capped")
    assert text.endswith("requests waited at the client")


@pytest.mark.parametrize(("events_per_s", "said"), [(50.0, True), (70.0, False)])
def test_more_events_than_in_the_calibration_are_said_and_limit_nothing(events_per_s, said):
    result = stage(closed(1, 40), client=Client(calibration=replace(CALIBRATED, events_per_s=events_per_s)))
    texts = [item["text"] for item in result["reasons"] if item["code"] == "calibration_below"]
    assert bool(texts) == said
    assert all(text.startswith("73 token events came in a second, and 50 in the calibration") for text in texts)
    assert result["verdict"] == "ok"


def test_a_client_that_keeps_up_has_no_reason_of_its_own():
    result = stage(closed(1, 40), client=Client(busy_share=0.5, waited_share=0.01, calibration=CALIBRATED))
    assert not [item for item in result["reasons"] if item["code"].startswith("client_")]


def test_percentiles_are_shown_only_with_enough_samples():
    few, many = stage(closed(1, 40)), stage(closed(1, 460))
    assert few["metrics"]["ttft_ms"]["p90"] is None
    assert many["metrics"]["ttft_ms"]["p99"] == pytest.approx(50)


def test_answers_that_were_not_streamed_have_a_latency_and_no_ttft():
    request = row(0, tokens=5, events=0) | {"last_token_ns": START + 300 * MS, "end_ns": START + 300 * MS}
    result = stage([request])
    assert "ttft_ms" not in result["metrics"]
    assert mean(result, "e2e_ms") == pytest.approx(300)


def test_money_is_per_what_was_served_in_the_window():
    result = stage(closed(1, 100), account=Account(usd_per_hour=3.6, price_source="list"))
    served = result["metrics"]["request_per_s"]["n"]
    seconds = result["window"]["seconds"]
    assert mean(result, "usd_per_mtok_output") == pytest.approx(3.6 / (mean(result, "output_tokens_per_s") * 0.0036))
    assert mean(result, "usd_per_query") == pytest.approx(3.6 / 3600 * seconds / served)


def test_an_unknown_price_gives_no_cost_and_an_unknown_length_no_token_rate():
    result = stage([r | {"output_tokens": None, "input_tokens": None} for r in closed(1, 20)])
    assert not {"usd_per_mtok_output", "output_tokens_per_s", "total_tokens_per_s", "tpot_ms"} & set(result["metrics"])


def test_prompts_off_by_more_than_two_percent_are_flagged_for_each_class_of_length():
    rows = [r | {"asked_input_tokens": 100 if i % 2 else 640, "input_tokens": 101 if i % 2 else 512}
            for i, r in enumerate(closed(1, 20))]  # fmt: skip
    result = stage(rows)
    assert [(one["asked"], one["counted"], one["n"], one["off"]) for one in result["lengths"]] == [
        (100, 101, 10, False), (640, 512, 10, True),
    ]  # fmt: skip
    texts = [item["text"] for item in result["reasons"] if item["code"] == "input_length_off"]
    assert texts == ["prompts meant to have 640 tokens had 512 by the server's count (n = 10)"]


def test_a_run_is_valid_only_when_every_stage_is_and_all_were_started():
    load = Load(levels=(1.0, 2.0), requests=20)
    spec = RunSpec(Target("http://x"), load=load)
    both = table(closed(1, 20) + closed(2, 20, stage=1))
    assert summarise(both, spec)["valid"]
    one = summarise(both.filter(pa.compute.equal(both["stage"], 0)), spec)
    assert not one["valid"]
    assert {item["code"] for item in one["reasons"]} == {"stages_not_started"}


def test_gaps_of_one_request_are_not_taken_for_independent():
    rng = np.random.default_rng(1)
    rows = [row(i * 400, gap_ms=float(gap), tokens=30) for i, gap in enumerate(rng.normal(10, 3, 20).clip(4))]
    itl = stage(rows)["metrics"]["itl_ms"]
    assert itl["high"] - itl["low"] > 1.5  # 580 gaps, but only 20 independent requests


# rates at the edges of a window


def batches(concurrency: int, count: int, batch_ms: float, *, warmup: int = 0, **more) -> list[dict[str, object]]:
    """A server that answers in lock step: every batch of requests ends together."""
    return [
        row((i // concurrency) * batch_ms, warmup=i < warmup, tokens=11, gap_ms=(batch_ms - 51) / 10, **more)
        for i in range(count)
    ]


@pytest.mark.parametrize("count", [40, 41, 42, 43, 47])
@pytest.mark.parametrize("warmup", [0, 4, 8])
def test_with_a_constant_length_request_rate_times_length_is_token_rate(count, warmup):
    result = stage(batches(4, count, 400.0, warmup=warmup), level=4.0)
    assert mean(result, "request_per_s") == pytest.approx(mean(result, "output_tokens_per_s") / 11, rel=0.05)
    assert mean(result, "request_per_s") == pytest.approx(4 / 0.4, rel=0.05)


def test_the_steady_window_of_a_closed_loop_ends_when_no_request_takes_the_place_of_one_that_ended():
    result = stage(closed(4, 200), level=4.0)
    last_sent = START + round((200 // 4 - 1) * 151 * MS)
    assert result["window"]["end_ns"] == last_sent + 151 * MS


def test_warmup_requests_that_end_in_the_whole_window_count_by_their_share():
    rows = [row(0, warmup=True, ttft_ms=900), row(0, warmup=True, ttft_ms=900), row(900, ttft_ms=900)]
    result = stage(rows, level=3.0)
    assert result["window"]["kind"] == "whole"
    assert mean(result, "request_per_s") == pytest.approx((1 + 2 * 101 / 1001) / 1.001, rel=0.01)


def test_an_open_loop_is_steady_once_the_load_has_lasted_as_long_as_a_request():
    rows = [row(i * 50, ttft_ms=1000, gap_ms=100, tokens=11) for i in range(140)]
    result = stage(rows, level=20.0, arrivals=Arrivals.CONSTANT)
    assert result["window"]["kind"] == "steady"
    assert mean(result, "request_per_s") == pytest.approx(20, rel=0.03)
    assert mean(result, "achieved_concurrency") == pytest.approx(40, rel=0.03)
    assert mean(result, "output_tokens_per_s") == pytest.approx(220, rel=0.05)


# counts that are not known


def test_an_unknown_number_of_tokens_meets_no_bound_on_tpot():
    rows = [r | {"output_tokens": None} for r in closed(1, 20)]
    assert mean(stage(rows, slo=Slo(tpot_ms=1)), "goodput_share") == 0
    assert mean(stage([row(i * 151, tokens=1) for i in range(20)], slo=Slo(tpot_ms=1)), "goodput_share") == 100


def test_rates_of_tokens_are_left_out_when_some_answers_have_no_count():
    rows = [r | ({"output_tokens": None} if i % 2 else {}) for i, r in enumerate(closed(1, 40))]
    result = stage(rows, account=Account(usd_per_hour=1.0))
    assert "request_per_s" in result["metrics"]
    assert not {"output_tokens_per_s", "total_tokens_per_s", "usd_per_mtok_output"} & set(result["metrics"])
    assert "tokens_unknown" in {item["code"] for item in result["reasons"]}


def test_tokens_that_came_with_the_first_read_are_not_decoded_after_it():
    bundled = row(0, tokens=40, events=5, gap_ms=80)
    assert mean(stage([bundled]), "tpot_ms") == pytest.approx(10)
    packet = row(0, tokens=20, gap_ms=0) | {"event_offsets_ns": [100 * MS] * 10 + [200 * MS] * 10}
    packet |= {"first_token_ns": START + 100 * MS, "last_token_ns": START + 200 * MS, "end_ns": START + 201 * MS}
    assert mean(stage([packet]), "tpot_ms") == pytest.approx(10)


def test_a_stream_that_came_in_one_read_has_no_tpot():
    result = stage([row(0, tokens=20, gap_ms=0)], slo=Slo(tpot_ms=1))
    assert "tpot_ms" not in result["metrics"]
    assert mean(result, "goodput_share") == 0


def test_a_single_late_request_among_few_limits_nothing():
    rows = [r | {"due_ns": r["sent_ns"] - (50 * MS if i == 0 else 0)} for i, r in enumerate(closed(1, 20))]
    assert stage(rows, level=6.0, arrivals=Arrivals.CONSTANT, client=Client())["verdict"] == "ok"


def test_a_warmup_that_holds_every_slot_to_the_end_says_so():
    result = stage([row(0, warmup=True)])
    assert result["verdict"] == "failed"
    assert "longer than a request" in result["reasons"][0]["text"]


# repeats


def test_repeats_of_a_level_have_their_mean_and_the_interval_of_what_changes_from_run_to_run():
    load = Load(levels=(1.0, 2.0), requests=10, repeats=3)
    spec = RunSpec(Target("http://x"), load=load)
    ttft_ms = (50, 70, 52, 74, 54, 78)
    rows = [r for i, ms in enumerate(ttft_ms) for r in closed(1, 10, ttft_ms=ms, stage=i)]
    summary = summarise(table(rows), spec)
    assert [(one["index"], one["load"]["value"], one["repeat"]) for one in summary["stages"]] == [
        (0, 1, 1), (1, 2, 1), (2, 1, 2), (3, 2, 2), (4, 1, 3), (5, 2, 3),
    ]  # fmt: skip
    first, second = summary["levels"]
    assert (first["load"]["value"], first["stages"], second["stages"]) == (1, [0, 2, 4], [1, 3, 5])
    found = first["metrics"]["ttft_ms"]["mean"]
    assert (found["mean"], found["n"]) == (pytest.approx(52), 3)
    assert found["high"] - found["mean"] == pytest.approx(4.303 * 2 / 3**0.5, rel=1e-3)
    assert first["metrics"]["ttft_ms"]["p50"]["mean"] == pytest.approx(52)


def test_a_level_that_was_run_once_has_no_run_to_run_interval():
    spec = RunSpec(Target("http://x"), load=Load(levels=(1.0,), requests=10))
    assert summarise(table(closed(1, 10)), spec)["levels"] == []


# the server's prefix cache


def cached(cached_tokens, reusable_tokens=0, template_tokens=30.0):
    rows = [r | {"cached_tokens": cached_tokens, "reusable_tokens": reusable_tokens, "asked_input_tokens": 100}
            for r in closed(1, 20)]  # fmt: skip
    spec = RunSpec(Target("http://x"), load=Load(levels=(1.0,), requests=20))
    return summarise_stage(table(rows), fixed_stages(spec)[0], spec, template_tokens=template_tokens)


def test_the_chat_template_out_of_the_cache_is_clean():
    result = cached(30)
    assert result["cache"] == {"offered_share": 0, "cached_share": 0.3, "unexplained_share": 0, "clean": True}
    assert mean(result, "cached_share") == pytest.approx(30)


def test_more_than_the_template_out_of_the_cache_is_not_clean_and_is_a_reason():
    result = cached(90)
    assert result["cache"]["clean"] is False
    assert result["cache"]["unexplained_share"] == pytest.approx(0.6)
    (text,) = (item["text"] for item in result["reasons"] if item["code"] == "cache_not_clean")
    assert text.startswith("60.0% of the prompt tokens came out of the server's cache")


def test_what_the_workload_itself_repeats_is_no_contamination():
    result = cached(80, reusable_tokens=50)
    assert result["cache"]["clean"] is True
    assert result["cache"]["offered_share"] == pytest.approx(0.5)


@pytest.mark.parametrize(("told", "template"), [(None, 30.0), (90, None)])
def test_without_the_servers_count_or_the_templates_length_nothing_is_claimed(told, template):
    assert cached(told, template_tokens=template)["cache"]["clean"] is None


# the load that was held


def test_a_closed_loop_with_a_hole_tells_its_mean_concurrency_and_idle_share():
    rows = closed(1, 100) + [row(100 * 151 + 3000 + i * 151) for i in range(100)]
    result = stage(rows)
    (text,) = (item["text"] for item in result["reasons"] if item["code"] == "load_not_held")
    assert text == "on average 0.91 of 1 requests were in flight; nothing was in flight for 9.0% of the window"
    assert result["window"]["idle_share"] == pytest.approx(0.091, abs=0.001)


def test_a_loop_that_holds_its_number_has_no_such_reason():
    assert "load_not_held" not in {item["code"] for item in stage(closed(4, 200), level=4.0)["reasons"]}


def test_a_ramp_has_no_steady_window_and_says_why():
    load = Load(levels=(4.0,), duration_s=10, ramp_from=1)
    spec = RunSpec(Target("http://x"), load=load)
    result = summarise_stage(table(closed(4, 200)), fixed_stages(spec)[0], spec)
    assert result["window"]["kind"] == "whole"
    assert "the load rose from 1 to 4" in next(i["text"] for i in result["reasons"] if i["code"] == "ramp")


# reasoning


def test_what_comes_before_an_answer_is_in_its_time_and_not_in_the_first_token():
    rows = [row(at, first_answer_ns=START + round((at + 90) * MS), reasoning_tokens=4) for at in range(0, 1510, 151)]
    result = stage(rows)
    assert mean(result, "ttft_ms") == pytest.approx(50)
    assert mean(result, "first_answer_ms") == pytest.approx(90)
    assert mean(result, "reasoning_tokens") == 4
    assert "reasoning_tokens" not in stage(closed(1, 10))["metrics"]


# tasks


def tasks(count, turns=3, cut=0):
    """Tasks one after the other, each turn 151 ms after the last; ``cut`` of them lack their last turn."""
    return [
        row((task * turns + turn) * 151) | {"chain": task, "turn": turn, "turns": turns}
        for task in range(count)
        for turn in range(turns)
        if not (task < cut and turn == turns - 1)
    ]


def test_task_latency_is_from_the_first_request_to_the_last_token_of_the_last():
    result = stage(tasks(10), workload=Workload(source=Agents()))
    assert mean(result, "task_ms") == pytest.approx(2 * 151 + 150)
    assert result["tasks"] == {"started": 10, "finished": 10}


def test_tasks_that_the_stage_cut_are_left_out_and_told():
    result = stage(tasks(10, cut=4), workload=Workload(source=Agents()))
    assert result["metrics"]["task_ms"]["n"] == 6
    (text,) = (item["text"] for item in result["reasons"] if item["code"] == "tasks_cut")
    assert text.startswith("4 of 10 tasks were not finished")


def test_a_thinking_conversation_counts_as_held_load_when_the_steady_window_is_sought():
    rows = [row(task * 75 + turn * 400) | {"chain": task, "turn": turn, "turns": 10}
            for task in range(2) for turn in range(10)]  # fmt: skip
    assert stage(rows, level=2.0)["window"]["kind"] == "steady"
