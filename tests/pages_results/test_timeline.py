import json

import numpy as np
import pyarrow as pa
import pytest

from observatory.pages.charts import Trace
from observatory.pages.timeline import MAX_BARS, request_timeline
from runners.load.records import SCHEMA
from tests.simulation import Plan, power_rows, request_rows

PLAN = Plan(levels=(2, 4), requests=60, failures=3)


def traces(plan: Plan = PLAN, stage: int = 1) -> dict[str, list[Trace]]:
    rows, windows = request_rows(plan)
    chart = request_timeline(rows, stage, power_rows(plan, windows), {"gpu0": "H100 <b>"})
    assert chart is not None
    json.dumps(chart.to_json(), allow_nan=False)
    found: dict[str, list[Trace]] = {}
    for trace in chart.figure["data"]:
        found.setdefault(trace.get("yaxis", "y"), []).append(trace)
    return found


def test_each_request_is_a_bar_of_waiting_first_token_and_decoding() -> None:
    bars = {trace["name"]: trace for trace in traces()["y"]}
    decode, first = bars["first to last token"], bars["sent to first token"]
    assert len(decode["x"]) == 57
    assert decode["base"] == pytest.approx(np.add(first["base"], first["x"]))
    assert min(bars["due to sent"]["base"]) == 0


def test_a_failure_is_one_bar_of_its_own() -> None:
    bars = {trace["name"]: trace for trace in traces()["y"]}
    assert len(bars["did not end well"]["x"]) == 3
    assert "http_error" in bars["did not end well"]["customdata"][0]


def test_the_throughput_strip_holds_every_output_token() -> None:
    strip = traces()["y2"][0]
    step = strip["x"][1] - strip["x"][0]
    assert sum(strip["y"]) * step == pytest.approx(57 * PLAN.output_tokens)


def test_requests_in_flight_never_pass_the_concurrency() -> None:
    strip = traces()["y3"][0]["y"]
    assert max(strip) <= 4 + 1e-6
    assert np.median(strip) > 3.5


def test_power_is_a_line_a_device_with_its_counter_beside() -> None:
    power = {trace["name"]: trace for trace in traces()["y4"]}
    assert set(power) == {
        "H100 &lt;b&gt;",
        "H100 &lt;b&gt;, instant",
        "H100 &lt;b&gt;, counter",
        "cpu-package0, counter",
    }
    assert np.median(power["H100 &lt;b&gt;"]["y"]) == pytest.approx(180, rel=0.1)
    assert np.median(power["H100 &lt;b&gt;, counter"]["y"]) == pytest.approx(180, rel=0.1)


def test_a_model_of_power_is_named_so_and_has_no_counter() -> None:
    plan = Plan(levels=(1,), requests=50, energy="modelled")
    rows, windows = request_rows(plan)
    chart = request_timeline(rows, 0, power_rows(plan, windows), {"cpu": "EPYC"}, {"cpu"})
    assert chart is not None
    assert [trace["name"] for trace in chart.figure["data"] if trace.get("yaxis") == "y4"] == ["EPYC, model"]


def test_many_requests_are_thinned_with_failures_kept_and_it_is_said() -> None:
    rows, _ = request_rows(Plan(levels=(8,), requests=900, failures=5, output_tokens=4))
    chart = request_timeline(rows, 0)
    assert chart is not None
    assert len(chart.rows) <= MAX_BARS
    assert sum(row[1] == "http_error" for row in chart.rows) == 5
    assert f"{len(chart.rows)} of 900 requests are drawn" in chart.note


def test_a_stage_where_nothing_was_sent_has_no_timeline() -> None:
    assert request_timeline(SCHEMA.empty_table(), 0) is None


def test_requests_without_an_end_are_still_drawn() -> None:
    rows, _ = request_rows(Plan(levels=(1,), requests=5, output_tokens=3))
    position = rows.schema.get_field_index("end_ns")
    cut = rows.set_column(position, SCHEMA.field("end_ns"), pa.array([None] * 5, pa.int64()))
    chart = request_timeline(cut, 0)
    assert chart is not None
    json.dumps(chart.to_json(), allow_nan=False)
