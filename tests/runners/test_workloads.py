"""``python -m runners bench`` with every kind of workload and load: on the embedded engine, and on servers whose truth
is known."""

import json
import time
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest

from runners.spec import RunSpec
from tests.runners.test_bench import bench, runners
from tests.services.misbehaving import Counting, Ledger, good, serving

PLAIN = ("--power", "none", "--calibrate", "0")


def rows_of(out):
    return sorted(pq.read_table(out / "requests.parquet").to_pylist(), key=lambda row: row["sent_ns"])


def counted(tmp_path, *more, server=None, **environment):
    """Summary and rows of a run against a server that counts words and caches prefixes."""
    with serving({"keep": server or Counting()}) as service:
        done, _, summary = bench(service.url, tmp_path, *PLAIN, *more, model="keep", **environment)
    assert summary, done.stdout + done.stderr
    return summary, rows_of(tmp_path)


# on the embedded engine


def test_shared_prefixes_come_out_of_the_engines_cache_as_far_as_the_workload_offers_them(engine, tmp_path):
    url, model = engine
    done, _, summary = bench(
        url, tmp_path, "--workload", "prefixes", "--prefix-groups", "2", "--prefix-tokens", "100", "--input-tokens",
        "150", "--output-tokens", "2", "--requests", "8", *PLAIN, model=model,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    stage, rows = summary["stages"][0], rows_of(tmp_path)
    seen = set()
    for row in rows:
        assert (row["reusable_tokens"] > 0) is (row["group"] in seen)
        if row["group"] in seen:
            assert row["cached_tokens"] >= 100
        seen.add(row["group"])
    assert stage["cache"]["clean"] is True
    assert stage["cache"]["cached_share"] > 0.3
    assert summary["workload"]["lengths_from"] == "endpoint"
    assert not any(one["off"] for one in stage["lengths"])


def test_conversations_hold_the_engines_own_answers_and_their_lengths_are_known(engine, tmp_path):
    url, model = engine
    done, _, summary = bench(
        url, tmp_path, "--workload", "conversations", "--turns", "3", "--think", "0.1", "--input-tokens", "16",
        "--output-tokens", "8", "--requests", "6", "--concurrency", "2", *PLAIN, model=model,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    rows = rows_of(tmp_path)
    chains = {}
    for row in rows:
        chains.setdefault(row["chain"], []).append(row)
    assert [len(turns) for turns in chains.values()] == [3, 3]
    for turns in chains.values():
        for before, after in pairwise(turns):
            assert after["due_ns"] == before["end_ns"] + 100_000_000
            assert after["input_tokens"] == pytest.approx(after["asked_input_tokens"], abs=3)
            assert after["reusable_tokens"] == before["input_tokens"] + before["output_tokens"]
            assert after["cached_tokens"] > before["input_tokens"] - 5
    assert summary["stages"][0]["tasks"] == {"started": 2, "finished": 2}


def test_a_search_for_the_highest_load_on_the_engine_ends_with_a_confirmed_answer(engine, tmp_path):
    url, model = engine
    done, lines, summary = bench(
        url, tmp_path, "--find", "slo", "--slo", "ttft_ms=60000", "--slo-share", "0.6", "--concurrency", "1,2",
        "--requests", "6", "--input-tokens", "40", "--output-tokens", "2", *PLAIN, model=model,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    found = summary["max_load_under_slo"]
    assert [stage["load"]["value"] for stage in summary["stages"]] == [1, 2, 2]
    assert (found["value"], found["low"], found["confirmed"], found["limited_by"]) == (2, 2, True, "most")
    assert lines[-1]["valid"]


def test_a_replay_keeps_the_recorded_times_at_every_speed(engine, tmp_path):
    url, model = engine
    trace = tmp_path / "trace.jsonl"
    times_ms = (500, 700, 1400, 1500)
    entry = {"input_length": 60, "output_length": 2, "hash_ids": [1]}
    trace.write_text("\n".join(json.dumps({"timestamp": ms, **entry}) for ms in times_ms))
    done, _, summary = bench(
        url, tmp_path / "out", "--workload", "trace", "--workload-file", str(trace), "--speed", "1,2", *PLAIN,
        model=model,
    )  # fmt: skip
    assert [stage["load"] for stage in summary["stages"]] == [{"kind": "speed", "value": s} for s in (1, 2)], (
        done.stdout
    )
    rows = rows_of(tmp_path / "out")
    for stage, speed in ((0, 1), (1, 2)):
        due_ns = [row["due_ns"] for row in rows if row["stage"] == stage]
        assert np.diff(due_ns).tolist() == [ms * 1_000_000 / speed for ms in np.diff(times_ms)]
    assert np.median([row["sent_ns"] - row["due_ns"] for row in rows]) < 100e6


# kinds of workload, against a server that counts words


def test_lengths_that_vary_are_asked_for_and_checked_class_by_class(tmp_path):
    summary, rows = counted(
        tmp_path, "--input-tokens", "uniform:low=20,high=100", "--output-tokens", "uniform:low=1,high=4",
        "--requests", "60",
    )  # fmt: skip
    assert all(row["input_tokens"] == row["asked_input_tokens"] for row in rows)
    assert {row["output_tokens"] for row in rows} == {1, 2, 3, 4}
    lengths = summary["stages"][0]["lengths"]
    assert len(lengths) == 3
    assert not any(one["off"] for one in lengths)


def test_prompts_of_a_file_are_sent_and_nothing_is_claimed_of_lengths_that_nobody_counted(tmp_path):
    (tmp_path / "prompts").write_text('"tell me a story"\n"and another"\n')
    summary, rows = counted(
        tmp_path, "--workload", "prompts", "--workload-file", str(tmp_path / "prompts"), "--requests", "10"
    )
    assert {row["input_tokens"] for row in rows} == {5 + 4, 5 + 2}
    assert {row["asked_input_tokens"] for row in rows} == {None}
    assert summary["stages"][0]["lengths"] == []
    assert {"cache_not_clean"} <= {item["code"] for item in summary["stages"][0]["reasons"]}  # the file was used up


def test_an_agents_task_waits_for_its_answers_and_tools_and_has_a_latency(tmp_path):
    summary, rows = counted(
        tmp_path, "--workload", "agents", "--calls", "3", "--tool-time", "0.05", "--input-tokens", "20",
        "--requests", "30", "--result-tokens", "40", "--system-tokens", "50", "--output-tokens", "4",
        server=Counting(0.02),
    )  # fmt: skip
    task = summary["stages"][0]["metrics"]["task_ms"]
    assert task["n"] == 10
    assert task["min"] >= 3 * 20 + 2 * 50
    assert all(row["input_tokens"] == row["asked_input_tokens"] for row in rows)


def test_a_length_sweep_has_a_stage_for_each_length_at_one_load(tmp_path):
    summary, _ = counted(tmp_path, "--input-sweep", "50,200", "--concurrency", "2", "--requests", "20")
    assert [stage["load"] for stage in summary["stages"]] == [
        {"kind": "input_tokens", "value": 50}, {"kind": "input_tokens", "value": 200},
    ]  # fmt: skip
    assert [stage["metrics"]["input_tokens"]["mean"] for stage in summary["stages"]] == [50, 200]


def test_repeats_are_run_in_turn_and_the_table_has_their_mean(tmp_path):
    with serving({"keep": good}) as server:
        done = runners(
            "bench", "--url", server.url, "--model", "keep", "--out", str(tmp_path), "--concurrency", "1,2",
            "--repeats", "2", "--requests", "10", *PLAIN,
        )  # fmt: skip
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [(one["load"]["value"], one["repeat"]) for one in summary["stages"]] == [(1, 1), (2, 1), (1, 2), (2, 2)]
    assert [one["stages"] for one in summary["levels"]] == [[0, 2], [1, 3]]
    assert "c=2 #2" in done.stdout
    assert "mean of 2" in done.stdout


def test_a_ramp_raises_the_number_in_flight_through_its_stage(tmp_path):
    _, rows = counted(
        tmp_path, "--concurrency", "8", "--ramp-from", "1", "--duration", "2", "--output-tokens", "1",
        server=Counting(0.1),
    )  # fmt: skip
    began_ns = rows[0]["sent_ns"]

    def in_flight(at_s):
        at_ns = began_ns + at_s * 1e9
        return sum(row["sent_ns"] <= at_ns < row["end_ns"] for row in rows)

    early = np.mean([in_flight(t) for t in np.arange(0.1, 0.6, 0.02)])
    late = np.mean([in_flight(t) for t in np.arange(1.5, 2.0, 0.02)])
    assert early < 3.5 < 5 < late


def test_a_search_finds_the_load_at_which_a_server_of_known_capacity_meets_the_slo(tmp_path):
    """A request takes 40 ms for each one that is in flight: 220 ms allow five."""

    def slows(wire):
        time.sleep(0.04 * service.in_flight)
        good(wire)

    with serving({"keep": slows}) as service:
        done, _, summary = bench(
            service.url, tmp_path, "--find", "slo", "--slo", "e2e_ms=220", "--slo-share", "0.8", "--concurrency", "2",
            "--requests", "40", *PLAIN, model="keep",
        )  # fmt: skip
    found = summary["max_load_under_slo"]
    assert done.returncode == 0, done.stdout
    assert 4 <= found["value"] <= 5
    assert found["high"] <= 6
    assert found["confirmed"]


# measurements that came out wrong elsewhere: load


def test_58_two_hundred_requests_a_second_are_sent_as_two_hundred_and_the_lag_is_told(tmp_path):
    summary, rows = counted(
        tmp_path,
        "--rate",
        "200",
        "--arrivals",
        "constant",
        "--duration",
        "4",
        "--input-tokens",
        "8",
        "--output-tokens",
        "1",
    )
    assert set(np.diff([row["due_ns"] for row in rows])) == {5_000_000}
    per_request_ns, _ = np.polyfit(np.arange(len(rows)), [row["sent_ns"] for row in rows], 1)
    assert 1e9 / per_request_ns == pytest.approx(200, rel=0.005)
    assert summary["stages"][0]["metrics"]["lag_ms"]["p99"] is not None


def test_60_a_concurrency_of_three_hundred_is_what_the_server_sees(tmp_path):
    ledger = Ledger(awaited=300)
    with serving({"m": ledger.script(0.5)}) as service:
        _, _, summary = bench(service.url, tmp_path, "--concurrency", "300", "--requests", "300", *PLAIN)
    assert ledger.peak == 300
    assert summary["stages"][0]["ok"] == 300


def test_63_a_turn_is_sent_at_its_place_in_the_schedule_whatever_the_answer_took(tmp_path):
    _, rows = counted(
        tmp_path, "--workload", "conversations", "--turns", "12", "--think", "0", "--turn-every", "0.15",
        "--requests", "12", "--output-tokens", "1", "--input-tokens", "8", server=Counting(0.05),
    )  # fmt: skip
    due_ns = [row["due_ns"] for row in rows]
    assert set(np.diff(due_ns)) == {150_000_000}


def test_63_a_turn_waits_for_its_answer_and_the_think_time_where_these_take_longer(tmp_path):
    _, rows = counted(
        tmp_path, "--workload", "conversations", "--turns", "5", "--think", "0.05", "--turn-every", "0.02",
        "--requests", "5", "--output-tokens", "1", "--input-tokens", "8", server=Counting(0.05),
    )  # fmt: skip
    for before, after in pairwise(rows):
        assert after["due_ns"] == before["end_ns"] + 50_000_000


def test_75_and_77_two_runs_of_one_seed_share_no_prompt_and_a_repeated_one_is_found_out(tmp_path):
    server = Counting()
    arguments = ("--requests", "20", "--seed", "42", "--output-tokens", "1")
    first = counted(tmp_path / "a", *arguments, server=server)
    second = counted(tmp_path / "b", *arguments, server=server)
    for summary, rows in (first, second):
        assert summary["stages"][0]["cache"]["clean"] is True
        assert max(row["cached_tokens"] for row in rows) <= Counting.TEMPLATE + 2
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(RunSpec.from_json(first[0]["spec"]).to_json()))  # its salt too: the same prompts again
    with serving({"keep": server}) as service:
        again = json.loads(spec.read_text())
        again["target"]["url"] = service.url
        spec.write_text(json.dumps(again))
        runners("bench", "--spec", str(spec), "--out", str(tmp_path / "c"), "--progress", "json")
    stage = json.loads((tmp_path / "c" / "summary.json").read_text())["stages"][0]
    assert stage["cache"]["clean"] is False
    assert "cache_not_clean" in {item["code"] for item in stage["reasons"]}


def test_78_what_the_warmup_sent_serves_no_measured_prefix(tmp_path):
    summary, rows = counted(
        tmp_path, "--workload", "prefixes", "--prefix-groups", "2", "--prefix-tokens", "60", "--input-tokens", "80",
        "--output-tokens", "1", "--warmup", "2", "--requests", "20", server=Counting(0.01),
    )  # fmt: skip
    assert {row["group"] for row in rows if row["warmup"]} == {0, 1}
    first = {}
    for row in rows:
        if not row["warmup"]:
            first.setdefault(row["group"], row)
    assert len(first) == 2
    assert all(row["cached_tokens"] <= Counting.TEMPLATE + 2 for row in first.values())
    assert summary["stages"][0]["cache"]["clean"] is True


def test_80_a_replay_states_its_mapping_and_the_reuse_that_it_achieved(tmp_path):
    trace = tmp_path / "trace.jsonl"
    entries = [(0, [1, 2]), (100, [1, 2, 3]), (200, [4]), (300, [1, 5])]
    trace.write_text("\n".join(
        json.dumps({"timestamp": at, "input_length": 20 * len(ids) + 5, "output_length": 2, "hash_ids": ids})
        for at, ids in entries
    ))  # fmt: skip
    spec = {
        "target": {"url": "", "model": "keep"},
        "workload": {"source": {"kind": "trace", "file": str(trace), "form": "mooncake", "block_tokens": 20}},
        "load": {"arrivals": "replay", "calibrate_s": 0},
        "power": {"source": "none"},
    }
    with serving({"keep": Counting()}) as service:
        spec["target"]["url"] = service.url
        (tmp_path / "spec.json").write_text(json.dumps(spec))
        runners("bench", "--spec", str(tmp_path / "spec.json"), "--out", str(tmp_path / "out"), "--progress", "json")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    cache = summary["stages"][0]["cache"]
    assert "each hash stands for a block of 20 made-up tokens" in summary["workload"]["sent"]
    assert cache["offered_share"] == pytest.approx((40 + 20) / (45 + 65 + 25 + 45))
    assert cache["cached_share"] == pytest.approx(cache["offered_share"] + 4 * Counting.TEMPLATE / 180, abs=0.02)


def test_82_shared_prefixes_have_the_lengths_asked_for_in_every_class(tmp_path):
    summary, rows = counted(
        tmp_path, "--workload", "prefixes", "--prefix-groups", "3", "--prefix-tokens", "60", "--input-tokens",
        "uniform:low=70,high=260", "--output-tokens", "1", "--requests", "40",
    )  # fmt: skip
    assert all(row["input_tokens"] == row["asked_input_tokens"] for row in rows)
    assert [one["off"] for one in summary["stages"][0]["lengths"]] == [False] * len(summary["stages"][0]["lengths"])


def test_103_a_cold_start_falls_into_the_warmup_which_is_not_drained(tmp_path):
    cold = 4 + 2  # the check before the run comes first

    def script(wire):
        number = len(service.requests)
        time.sleep(0.5 if 2 < number <= cold else 0.1 + 0.02 * (number % 4))  # never all at once
        good(wire)

    with serving({"keep": script}) as service:
        bench(service.url, tmp_path, "--concurrency", "4", "--warmup", "1", "--requests", "40", *PLAIN, model="keep")
    rows = rows_of(tmp_path)
    measured = [row for row in rows if not row["warmup"]]
    assert max(row["first_token_ns"] - row["sent_ns"] for row in rows if row["warmup"]) > 0.45e9
    assert max(row["first_token_ns"] - row["sent_ns"] for row in measured) < 0.4e9
    began_ns = measured[0]["sent_ns"]
    assert sum(row["sent_ns"] < began_ns < row["end_ns"] for row in rows if row["warmup"]) >= 2
