"""What requests did, from their rows, and what that took."""

from math import fsum

import numpy as np
import pyarrow as pa
import pytest

from runners.load.energy_use import add_medians, fit_run, request_energy, slices, work_in
from runners.load.records import SCHEMA
from runners.load.rows import StageRows, Window

S = 1_000_000_000


def row(sent_s, first_s, last_s, *, prompt=100, cached=0, tokens=10, outcome="ok", stage=0):
    sent = round(sent_s * S)
    offsets = [round(at) for at in np.linspace((first_s - sent_s) * S, (last_s - sent_s) * S, tokens)]
    return dict.fromkeys(SCHEMA.names) | {
        "stage": stage, "warmup": False, "outcome": outcome, "flags": [], "detail": "", "retried": False,
        "due_ns": sent, "sent_ns": sent, "first_token_ns": round(first_s * S), "last_token_ns": round(last_s * S),
        "end_ns": round(last_s * S), "input_tokens": prompt, "cached_tokens": cached, "output_tokens": tokens,
        "events": tokens, "event_offsets_ns": offsets, "event_tokens": [1] * tokens,
    }  # fmt: skip


def stage_rows(*rows):
    return StageRows(pa.Table.from_pylist(list(rows), schema=SCHEMA))


def test_a_window_is_cut_into_equal_slices():
    parts = slices(Window("steady", 0, 10 * S))
    assert parts == [(0, 2_500_000_000), (2_500_000_000, 5 * S), (5 * S, 7_500_000_000), (7_500_000_000, 10 * S)]
    assert slices(Window("steady", 0, S)) == []


def test_a_prompt_is_worked_on_from_sending_to_the_first_token():
    work = work_in(stage_rows(row(0, 4, 8)), 0, S)
    assert work.prefill.tolist() == [25]
    assert work.decode.tolist() == [0]


def test_cached_prompt_tokens_take_no_work():
    assert work_in(stage_rows(row(0, 4, 8, cached=60)), 0, 4 * S).prefill.tolist() == [40]


def test_tokens_count_where_their_stamps_fall():
    work = work_in(stage_rows(row(0, 1, 10, tokens=10)), 0, 5 * S)
    assert work.decode.tolist() == [4]


def test_each_token_reads_the_prompt_and_what_was_generated_before_it():
    work = work_in(stage_rows(row(0, 1, 2, prompt=100, tokens=3)), 0, 3 * S)
    assert work.kv_reads.tolist() == pytest.approx([(100 + 101 + 102) / 1e6])


def test_time_is_divided_among_the_requests_in_flight():
    work = work_in(stage_rows(row(0, 1, 4), row(2, 3, 6)), 0, 8 * S)
    assert work.seconds.tolist() == pytest.approx([2 + 1, 1 + 2])


def two_stages():
    """Prompts grow from request to request while answers vary on their own, so that they can be told apart."""
    random = np.random.default_rng(5)
    rows = []
    for stage in (0, 1):
        clock = 100.0 * stage
        for _ in range(40):
            prompt, tokens = int(random.integers(10, 4000)), int(random.integers(2, 60))
            rows.append(row(clock, clock + 0.5, clock + 1.4, prompt=prompt, tokens=tokens, stage=stage))
            clock += 1.5
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def true_energy(table):
    def energy_of(start_ns, end_ns):
        done = [work_in(StageRows(table), start_ns, end_ns)]
        return sum(60 * (end_ns - start_ns) / S + 0.01 * w.prefill.sum() + 0.5 * w.decode.sum() for w in done)

    return energy_of


def summary_stages(table):
    energy_of = true_energy(table)
    spans = [(0, 60 * S), (100 * S, 160 * S)]
    return [
        {"index": i, "window": {"kind": "steady", "start_ns": start, "end_ns": end},
         "energy": {"it_j": energy_of(start, end)}, "metrics": {}}
        for i, (start, end) in enumerate(spans)
    ]  # fmt: skip


def test_the_fit_over_all_stages_finds_what_the_tokens_took():
    table = two_stages()
    parts = []
    for index in (0, 1):
        rows = stage_rows(*[row for row in table.to_pylist() if row["stage"] == index])
        parts.append((rows, Window("steady", 100 * index * S, (100 * index + 60) * S)))
    found = fit_run(parts, true_energy(table), 60.0)
    prefill, decode = found.terms[:2]
    assert prefill.joules == pytest.approx(0.01, rel=0.05)
    assert decode.joules == pytest.approx(0.5, rel=0.05)


def test_every_stage_gets_its_median_with_an_interval_and_a_mark():
    table = two_stages()
    stages = summary_stages(table)
    told = add_medians(table, stages, true_energy(table), 60.0)
    assert told["slices"] == 48
    for stage in stages:
        median = stage["metrics"]["wh_per_query_median"]
        assert median["mark"] == "modelled"
        assert median["low"] <= median["mean"] <= median["high"]
        assert median["mean"] == pytest.approx(stage["energy"]["it_j"] / 40 / 3600, rel=0.5)


def test_requests_of_a_window_took_its_whole_energy():
    table = two_stages()
    window = Window("steady", 0, 60 * S)
    rows = stage_rows(*[r for r in table.to_pylist() if r["stage"] == 0])
    found = fit_run([(rows, window)], true_energy(table), 60.0)
    assert fsum(request_energy(rows, window, found, 1234.5)) == 1234.5


def test_without_energy_there_is_no_median_and_no_fit():
    table = two_stages()
    stages = [stage | {"energy": None} for stage in summary_stages(table)]
    assert add_medians(table, stages, lambda start, end: None, 60.0) is None
    assert all("wh_per_query_median" not in stage["metrics"] for stage in stages)
