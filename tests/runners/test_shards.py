"""One run by several processes, against a server that keeps its own ledger."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from runners.budget import Budget
from runners.load.arrivals import Times, schedule_ns
from runners.load.plan import fixed_stages
from runners.load.shares import Share
from runners.load.stage import Stage, Work
from runners.load.target import Requests, base_endpoint
from runners.load.words import LengthFit
from runners.load.workloads import Context, read
from runners.progress import combined
from runners.sources import Agents, Conversations, Prefixes, Synthetic
from runners.spec import Arrivals, Goal, Load, RunSpec, Search, Shard, SpecError, Target, Workload
from tests.services.misbehaving import Ledger, Server, serving

ROOT = Path(__file__).resolve().parents[2]


def command(server: Server, out: Path, *options: str) -> list[str]:
    return [
        sys.executable, "-m", "runners", "bench", "--url", server.url, "--model", "m", "--power", "none", "--calibrate",
        "0", "--input-tokens", "5", "--progress", "json", "--out", str(out), *options,
    ]  # fmt: skip


def measured(prompt: str) -> bool:
    """Not one of the checks before the run, which have 16 or 112 words."""
    return len(prompt.split()) not in (16, 112)


def prompts(server: Server) -> list[str]:
    found = [request["messages"][0]["content"] for request in server.requests]
    return [prompt for prompt in found if measured(prompt)]


def test_the_shares_of_any_number_of_shards_add_up_to_the_whole():
    for count in (1, 2, 3, 7, 8):
        for whole in (1, 2, 7, 45, 200):
            shares = [Share(position, count) for position in range(count)]
            assert sum(share.part(whole) for share in shares) == whole
            assert max(share.part(whole) for share in shares) - min(share.part(whole) for share in shares) <= 1
            numbers = [share.number(nth) for share in shares for nth in range(share.part(whole))]
            assert sorted(numbers) == list(range(whole))


def test_the_shares_of_a_schedule_are_the_schedule():
    due = schedule_ns(Arrivals.POISSON, 50, Times(requests=200), seed=3)
    shares = [Share(position, 3).dealt(due) for position in range(3)]
    assert np.array_equal(np.sort(np.concatenate(shares)), due)


def test_a_concurrency_below_the_number_of_shards_leaves_some_without_work():
    def share(index: int) -> Share:
        spec = RunSpec(Target("http://h"), load=Load(levels=(2.0,), requests=5), shard=Shard(3, index))
        return Share.of(spec, 2.0)

    assert [share(index).part(2) for index in range(3)] == [1, 1, 0]
    assert [share(index).part(5) for index in range(3)] == [3, 2, 0]
    assert share(2).idle


@pytest.mark.parametrize(
    ("shard", "words"), [(Shard(0), "shard.count"), (Shard(2, 2), "shard.index"), (Shard(300), "shard.count")]
)
def test_a_shard_that_cannot_be_is_refused(shard, words):
    with pytest.raises(SpecError, match=words):
        RunSpec(Target("http://h"), load=Load(requests=5), shard=shard)


def test_a_run_at_an_endpoint_that_charges_is_not_split_for_each_process_asks_beforehand():
    with pytest.raises(SpecError, match=r"shard\.count: 1 where the endpoint charges"):
        RunSpec(Target("http://h"), load=Load(requests=5), shard=Shard(2), budget=Budget(1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    "asked", [{"workload": Workload(source=Conversations())}, {"workload": Workload(source=Agents())}, {"search": True}]
)
def test_what_hangs_on_answers_is_not_split(asked):
    search = Search(Goal.SATURATION) if asked.pop("search", False) else None
    with pytest.raises(SpecError, match=r"shard\.count: 1 for a search"):
        RunSpec(Target("http://h"), load=Load(requests=5, search=search), shard=Shard(2), **asked)


def test_the_measured_requests_of_a_schedule_with_warm_up_and_cool_down_are_split_without_loss():
    load = Load(Arrivals.POISSON, (50.0,), requests=101, warmup_s=0.7, cooldown_s=0.3)
    planned = []
    for index in range(3):
        spec = RunSpec(Target("http://h", "m"), load=load, shard=Shard(3, index), salt="s")
        requests = Requests(base_endpoint("http://h"), spec.target, spec.workload)
        context = Context(0, "s", LengthFit(), None, 5, 5)
        engine: Any = SimpleNamespace(stop_reason="")
        recorder: Any = SimpleNamespace(reset=lambda: None)
        stage = Stage(spec, fixed_stages(spec)[0], engine, recorder, requests, Work(read(Synthetic()).begin(context)))
        stage.prepare(lambda now_ns: None)
        planned.append(stage.planned)
    assert sum(planned) == 101
    assert max(planned) - min(planned) <= 1


def test_a_prefix_that_another_process_sent_before_counts_as_seen():
    context = Context(0, "s", LengthFit(), None, 40, 5)
    source = Prefixes(groups=3, prefix_tokens=20)
    whole = read(source).begin(context)
    expected = [whole.start(index).reusable_tokens for index in range(12)]
    for position in range(3):
        share = read(source).begin(context)
        found = [share.start(index).reusable_tokens for index in range(position, 12, 3)]
        assert found == expected[position::3]


def rows_of(out: Path) -> list[dict[str, Any]]:
    """In the order of the plan: those of several processes are stored some of each in turn."""
    rows = pq.read_table(out / "requests.parquet").to_pylist()
    return sorted(rows, key=lambda row: (row["stage"], row["index"]))


@pytest.fixture(scope="module")
def split(tmp_path_factory) -> tuple[list[str], Ledger, dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """A run of 45 in flight over two processes: prompts that came, the server's ledger, summary, rows and progress."""
    out, ledger = tmp_path_factory.mktemp("split"), Ledger(awaited=45)
    with serving({"m": ledger.script(0.4)}) as server:
        done = subprocess.run(
            command(server, out, "--concurrency", "45,1", "--requests", "200", "--processes", "2", "--duration", "7"),
            cwd=ROOT, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
    assert not (out / "shards").exists(), done.stdout + done.stderr
    summary = json.loads((out / "summary.json").read_text())
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return prompts(server), ledger, summary, rows_of(out), lines


def test_45_in_flight_over_two_processes_are_45_at_the_server(split):
    _, ledger, summary, *_ = split
    assert ledger.peak == 45
    assert summary["stages"][0]["metrics"]["achieved_concurrency"]["mean"] == pytest.approx(45, rel=0.05)
    assert summary["stages"][0]["window"]["kind"] == "steady"


def test_each_planned_request_is_sent_and_counted_once_and_no_prompt_twice(split):
    sent, _, summary, rows, _ = split
    first = [row for row in rows if row["stage"] == 0]
    assert (summary["stages"][0]["planned"], summary["stages"][0]["ok"]) == (200, 200)
    assert [row["index"] for row in first] == list(range(200))
    assert [row["shard"] for row in first] == [0, 1] * 100
    assert len(sent) == len(set(sent)) == len(rows)


def test_each_process_has_its_own_verdict_and_its_counts_add_up(split):
    _, _, summary, *_ = split
    stage = summary["stages"][0]
    assert [shard["index"] for shard in stage["shards"]] == [0, 1]
    assert sum(shard["ok"] for shard in stage["shards"]) == stage["ok"]
    assert {shard["verdict"] for shard in stage["shards"]} <= {"ok", "client_limited"}
    assert [shard["index"] for shard in summary["stages"][1]["shards"]] == [0]  # one in flight: one process
    assert [(shard["offset_ns"], shard["bound_ns"], shard["fault"]) for shard in summary["shards"]] == [
        (0, 0, None)
    ] * 2


def test_all_processes_begin_at_the_agreed_moment(split):
    _, _, summary, *_ = split
    assert 0 <= summary["stages"][0]["start_spread_ms"] < 50


def test_the_progress_is_that_of_the_run_and_ends_with_one_last_line(split):
    *_, lines = split
    assert lines[-1]["end"]
    most = max(line.get("in_flight", 0) for line in lines)
    assert 23 < most <= 45  # more than one process has; each says how far it is once a second, at a moment of its own
    assert max(line.get("ok", 0) for line in lines) >= 22  # what one process answers at once


def test_the_counts_of_all_processes_add_up_in_one_line():
    def said(**counts):
        return {"planned": 100, "sent": 40, "ok": 20, "failed": 1, "fraction": 0.4, "eta_s": 9.0, **counts}

    state = combined([said(in_flight=23, ttft_ms=80.0), said(in_flight=22, fraction=0.3, eta_s=14.0), {}])
    assert (state["in_flight"], state["sent"], state["ok"], state["failed"], state["planned"]) == (45, 80, 40, 2, 200)
    assert (state["fraction"], state["eta_s"], state["ttft_ms"]) == (0.3, 14.0, 80.0)
    assert combined([{}, {}]) == {}


def test_an_open_loop_over_three_processes_is_one_schedule(tmp_path):
    with serving({"m": Ledger().script(0.4)}) as server:
        done = subprocess.run(
            command(server, tmp_path, "--rate", "40", "--arrivals", "constant", "--requests", "60", "--processes", "3"),
            cwd=ROOT, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1])["exit"] in (0, 4)
    rows = rows_of(tmp_path)
    due = [row["due_ns"] for row in rows]
    assert due == [due[0] + index * 25_000_000 for index in range(60)]
    assert [row["shard"] for row in rows] == [0, 1, 2] * 20
    assert len(set(prompts(server))) == 60


@contextmanager
def running(server: Server, out: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(server, out, "--concurrency", "6", "--duration", "60", "--processes", "2"),
        cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout
        for line in process.stdout:
            if json.loads(line).get("ok", 0) >= 12:
                break
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def members(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_a_process_that_dies_makes_the_run_invalid_and_keeps_the_rows_of_all(tmp_path):
    with serving({"m": Ledger().script(0.4)}) as server, running(server, tmp_path) as process:
        os.kill(members(process)[1], signal.SIGKILL)
        last = json.loads(process.stdout.read().splitlines()[-1])
        assert process.wait(30) == 4
    assert "load process 1 ended by signal 9" in last["text"]
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert not summary["valid"]
    assert summary["reasons"][0]["code"] == "shard_lost"
    assert summary["shards"][1]["fault"]["code"] == "shard_lost"
    assert summary["shards"][0]["fault"] is None
    rows = pq.read_table(tmp_path / "requests.parquet")
    assert set(rows["shard"].to_pylist()) == {0, 1}


def test_a_stopped_run_stops_all_of_its_processes_and_keeps_their_rows(tmp_path):
    with serving({"m": Ledger().script(0.4)}) as server, running(server, tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        last = json.loads(process.stdout.read().splitlines()[-1])
        assert process.wait(30) == 130
    assert last["code"] == "interrupted"
    stage = json.loads((tmp_path / "summary.json").read_text())["stages"][0]
    assert stage["cancelled"] == 6
    assert stage["ok"] >= 12
    assert stage["verdict"] == "interrupted"


def test_the_processes_end_with_the_one_that_started_them(tmp_path):
    with serving({"m": Ledger().script(0.4)}) as server, running(server, tmp_path) as process:
        pids = members(process)
        assert len(pids) == 2
        process.kill()
        process.wait()
        deadline = time.monotonic() + 10
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_an_endpoint_that_cannot_be_used_ends_all_with_the_words_of_one(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "runners", "bench", "--url", "http://127.0.0.1:9", "--power", "none", "--calibrate", "0",
         "--requests", "5", "--processes", "2", "--progress", "json", "--out", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["code"] == "connect_refused"
