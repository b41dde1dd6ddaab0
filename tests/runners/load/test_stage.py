"""One load level: what is sent when, what stops it, and that every planned request gets its row."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runners.load.engine import Engine
from runners.load.plan import fixed_stages
from runners.load.records import SCHEMA, read_spool
from runners.load.stage import Recorder, Stage, Work
from runners.load.supply import Supply
from runners.load.target import Requests, base_endpoint, destination
from runners.load.unsent import RequestSpool
from runners.load.words import LengthFit
from runners.load.workloads import Context, read
from runners.load.workloads import Workload as Turns
from runners.spec import Arrivals, Load, ModelShare, RunSpec, Target, Timeouts, Workload
from tests.services.misbehaving import Script, good, json_body, serving

QUOTA = json.dumps({"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}).encode()
TIMEOUTS = Timeouts(connect_s=2.0, first_byte_s=2.0, idle_s=2.0, total_s=5.0)


def turns_of(spec: RunSpec) -> Turns:
    asked = spec.workload
    context = Context(asked.seed, spec.salt, LengthFit(), None, asked.input_tokens, asked.output_tokens)
    return read(asked.source).begin(context)


def rows_of(
    out: Path, load: Load, script: Script, workload: Workload | None = None, stop: str = ""
) -> tuple[list[dict[str, Any]], Engine]:
    """Every row of one level against this script."""
    with serving({"m": script}) as server:
        spec = RunSpec(Target(server.url, "m"), workload or Workload(), load, timeouts=TIMEOUTS, salt="s")
        requests = Requests(base_endpoint(server.url), spec.target, spec.workload)
        recorder = Recorder(RequestSpool(out / "rows.arrow"), requests, None)
        engine = Engine(destination(requests.endpoint), spec.timeouts, recorder.take)
        recorder.stop = engine.stop
        if stop:
            engine.stop(stop)
        try:
            work = Work(turns_of(spec))
            stage = Stage(spec, fixed_stages(spec)[0], engine, recorder, requests, work)
            stage.prepare(lambda now: None)
            stage.run(0, lambda now: None)
        finally:
            recorder.close()
            engine.close()
    return read_spool(out / "rows.arrow", SCHEMA).to_pylist(), engine


def in_turn(*scripts: Script) -> Script:
    """The scripts one after the other, then the last one."""
    calls = iter(scripts)
    return lambda wire: next(calls, scripts[-1])(wire)


def outcomes(rows: list[dict[str, Any]]) -> list[str]:
    return [row["outcome"] for row in rows]


def test_the_first_requests_of_a_schedule_are_sent_when_they_are_due(tmp_path):
    rows, _ = rows_of(tmp_path, Load(Arrivals.CONSTANT, (200.0,), requests=10), good)
    lag_ms = [(row["ready_ns"] - row["due_ns"]) / 1e6 for row in rows]
    assert outcomes(rows) == ["ok"] * 10
    assert 0 <= lag_ms[0] < 20, lag_ms


def test_no_request_is_built_when_it_is_to_be_sent_because_each_answer_has_others_built(tmp_path, monkeypatch):
    waiting, take = list[int](), Supply.take
    monkeypatch.setattr(Supply, "take", lambda self, warmup: waiting.append(self.waiting) or take(self, warmup))
    rows, _ = rows_of(tmp_path, Load(levels=(2.0,), requests=200), good)
    assert outcomes(rows) == ["ok"] * 200
    assert len(waiting) == 200
    assert min(waiting) >= 1


def test_a_used_up_quota_stops_the_run(tmp_path):
    script = in_turn(good, json_body(QUOTA, "429 Too Many Requests"))
    rows, engine = rows_of(tmp_path, Load(levels=(1.0,), requests=200), script)
    assert engine.stop_reason == "quota_error"
    assert len(rows) == 200
    assert outcomes(rows).count("not_sent") > 190


@pytest.mark.parametrize(
    ("answers", "stops"),
    [
        ((403,), True),
        ((200, 403, 200), False),
        ((200, 403, 403, 200), False),
        ((200, 401, 403, 401), True),
    ],
)
def test_a_refused_key_stops_the_run_at_once_only_where_it_never_worked(tmp_path, answers, stops):
    denied = json_body(b'{"error": "no"}', "403 Forbidden")
    script = in_turn(*(good if status == 200 else denied for status in answers))
    rows, engine = rows_of(tmp_path, Load(levels=(1.0,), requests=12), script)
    assert engine.stop_reason == ("auth_error" if stops else "")
    assert outcomes(rows).count("not_sent") == (12 - len(answers) if stops else 0)


def test_a_million_requests_that_were_never_sent_are_rows_within_seconds(tmp_path):
    began = time.monotonic()
    load = Load(levels=(1.0,), requests=1_000_000)
    with serving({"m": good}) as server:
        spec = RunSpec(Target(server.url, "m"), load=load, salt="s")
        requests = Requests(base_endpoint(server.url), spec.target, spec.workload)
        supply = Supply(requests, turns_of(spec), replace(fixed_stages(spec)[0], index=3), spec)
        spool = RequestSpool(tmp_path / "rows.arrow")
        for batch in supply.unsent(np.zeros(1_000_000, dtype=np.int64), "stopped"):
            spool.append_batch(batch)
        spool.close()
    table = read_spool(tmp_path / "rows.arrow", SCHEMA)
    assert time.monotonic() - began < 10
    assert table.num_rows == 1_000_000
    last = table.slice(999_999).to_pylist()[0]
    assert (last["stage"], last["index"], last["due_ns"], last["model"]) == (3, 999_999, None, "m")
    assert (last["outcome"], last["detail"], last["event_offsets_ns"]) == ("not_sent", "stopped", [])


def test_unsent_rows_go_on_where_the_sent_ones_end_and_name_their_models(tmp_path):
    workload = Workload(models=(ModelShare("m"), ModelShare("m", 2.0)))
    load = Load(Arrivals.CONSTANT, (5.0,), requests=4)
    rows, _ = rows_of(tmp_path, load, good, workload, stop="interrupted")
    assert [(row["index"], row["outcome"], row["model"]) for row in rows] == [
        (index, "not_sent", "m") for index in range(4)
    ]
    assert {row["detail"] for row in rows} == {"the stage was stopped: interrupted"}
    assert np.diff([row["due_ns"] for row in rows]).tolist() == [200_000_000] * 3


def test_requests_built_ahead_take_bounded_memory_and_time():
    workload = Workload(input_tokens=1_000_000)
    spec = RunSpec(Target("http://127.0.0.1:9", "m"), workload, Load(requests=1_000), salt="s")
    requests = Requests(base_endpoint("http://127.0.0.1:9"), spec.target, workload)
    supply = Supply(requests, turns_of(spec), fixed_stages(spec)[0], spec)
    began = time.monotonic()
    assert not supply.fill(100, 0.05)
    assert time.monotonic() - began < 5
    assert supply.fill(100, 60)
    assert 10 <= supply.waiting <= 20
