import json
import re
from typing import Any

import numpy as np
import pytest

from observatory.compare.stages import Number
from observatory.pages import account_charts, charts
from observatory.pages.charts import Chart, StagePoint
from observatory.pages.run_carbon import Place

HOSTILE = ("<img src=x onerror=alert(1)>", "%{customdata[0]}", "a\u202eb", "x & <b>y</b>")


def stage(label: str = "concurrency 4", n: int = 500, **changes: Any) -> StagePoint:
    values = 100 * np.random.default_rng(1).lognormal(0, 0.3, n)
    numbers = {
        ("e2e_ms", "mean"): Number(float(values.mean()), n=n),
        ("e2e_ms", "p50"): Number(float(np.percentile(values, 50)), n=n),
        ("output_tokens_per_s", "mean"): Number(60, 58, 62, n),
    }
    if n >= 459:
        numbers["e2e_ms", "p99"] = Number(float(np.percentile(values, 99)), n=n)
    return StagePoint(**{"label": label, "numbers": numbers, "samples": {"e2e_ms": values}, **changes})


def layers(**changes: Any) -> dict[str, Any]:
    layer = {"layer": "cpu", "label": "CPU", "energy_j": 90.0, "low_j": 80.0, "high_j": 100.0, "mark": "measured",
             "source": "rapl"}  # fmt: skip
    return {"layers": [{**layer, **changes}], "narrow_j": None, "it_j": 90.0, "full_j": None}


def every_chart(label: str) -> list[Chart]:
    stages = [stage(label, why_hollow=label)]
    point = {"t_s": 1.0, "output_tokens_per_s": 4.0, "ttft_ms": None, "load": {"kind": label, "value": 2}}
    return [
        charts.throughput_against_latency(stages),
        charts.ecdf(stages, "e2e_ms"),
        charts.percentiles_by_stage(stages, "e2e_ms"),
        account_charts.ledger_bars(layers(label=label, source=label)),
        account_charts.carbon_by_region(Place(label, 1.2, 0.3, 0.1), [], 0),
        charts.live([point]),
    ]


@pytest.mark.parametrize("label", HOSTILE)
def test_what_users_wrote_reaches_no_figure_as_markup_or_template(label: str) -> None:
    for chart in every_chart(label):
        figure = json.dumps(chart.figure, allow_nan=False, ensure_ascii=False)
        assert set(re.findall("<[^>]*>", figure)) <= {"<br>", "<extra>", "</extra>"}
        assert "\u202e" not in figure
        for trace in chart.figure["data"]:
            assert trace["hovertemplate"] == "%{customdata}<extra></extra>"


def test_every_axis_of_a_metric_says_unit_and_direction() -> None:
    figure = charts.throughput_against_latency([stage()]).figure
    assert figure["layout"]["xaxis"]["title"]["text"] == "End-to-end latency p50, ms, lower is better"
    assert figure["layout"]["yaxis"]["title"]["text"] == "Output throughput, tok/s,<br>higher is better"


def test_each_stage_is_one_point_with_its_interval() -> None:
    chart = charts.throughput_against_latency(
        [stage("concurrency 1"), stage("concurrency 2")], intervals=[(90, 120), None]
    )
    trace = chart.figure["data"][0]
    assert trace["text"] == ["concurrency 1", "concurrency 2"]
    assert trace["error_y"]["array"] == [2, 2]
    assert trace["error_x"]["array"][0] == pytest.approx(120 - trace["x"][0])
    assert trace["error_x"]["array"][1] == 0


def test_a_stage_that_must_not_be_trusted_is_hollow_and_says_why() -> None:
    chart = charts.throughput_against_latency([stage(), stage("concurrency 8", why_hollow="client limited")])
    assert chart.figure["data"][0]["marker"]["symbol"] == ["circle", "circle-open"]
    assert chart.note == "Hollow: concurrency 8: client limited."


def test_a_stage_without_the_metric_is_left_out_and_nothing_is_drawn_as_zero() -> None:
    chart = charts.throughput_against_latency([stage(), stage("empty", numbers={}, samples={})])
    assert len(chart.figure["data"][0]["x"]) == 1
    assert chart.note == "Not observed at empty."
    assert charts.ecdf([stage("empty", samples={})], "e2e_ms").figure is None
    assert charts.percentiles_by_stage([stage("empty", numbers={})], "e2e_ms").figure is None


@pytest.mark.parametrize(
    "draw", [charts.throughput_against_latency, lambda of: charts.percentiles_by_stage(of, "e2e_ms")]
)
def test_a_stage_of_too_few_requests_is_named_and_alone_has_no_invented_axes(draw: Any) -> None:
    slow = stage("concurrency 1", numbers={("e2e_ms", "mean"): Number(9000.0, n=5)})
    alone = draw([slow])
    assert (alone.figure, alone.note) == (None, "Too few requests for a median: concurrency 1 (n=5).")
    both = draw([slow, stage("concurrency 4")])
    assert both.figure is not None
    assert both.note == "Too few requests for a median: concurrency 1 (n=5)."


def test_a_wide_range_gets_a_log_axis_and_a_narrow_one_starts_at_zero() -> None:
    wide = {("e2e_ms", "p50"): Number(5000, n=500), ("output_tokens_per_s", "mean"): Number(61)}
    x = charts.throughput_against_latency([stage(), stage(numbers=wide)]).figure["layout"]
    assert x["xaxis"]["type"] == "log"
    assert x["yaxis"]["rangemode"] == "tozero"


def test_the_ecdf_climbs_to_a_hundred_percent_and_stays_small() -> None:
    line = charts.ecdf([stage(n=5000)], "e2e_ms").figure["data"][0]
    assert line["y"][-1] == 100
    assert line["x"] == sorted(line["x"])
    assert len(line["x"]) <= charts.ECDF_POINTS


def test_percentiles_without_enough_samples_say_so_and_have_no_point() -> None:
    chart = charts.percentiles_by_stage([stage("a"), stage("b", n=100)], "e2e_ms")
    p99 = next(trace for trace in chart.figure["data"] if trace["name"] == "p99")
    assert p99["y"][1] is None
    assert chart.rows[1][-1] == "too few (n=100)"


def test_modelled_energy_is_hatched_and_said() -> None:
    chart = account_charts.ledger_bars(layers(mark="modelled"))
    assert chart.figure["data"][0]["marker"]["pattern"]["shape"] == "/"
    assert "Hatched: modelled." in chart.note
    assert "Hatched" not in account_charts.ledger_bars(layers()).note


def test_a_layer_has_its_band_at_its_end_and_an_assumed_one_is_dotted() -> None:
    chart = account_charts.ledger_bars(layers(mark="assumed", energy_j=100.0, low_j=90.0, high_j=125.0))
    (trace,) = chart.figure["data"]
    assert trace["error_x"]["array"] == [25.0]
    assert trace["error_x"]["arrayminus"] == [10.0]
    assert trace["marker"]["pattern"]["shape"] == "."
    assert chart.note == "Lines: the band of the layer that ends there. Dotted: assumed."


def test_the_bars_of_a_boundary_hold_its_layers_and_no_others() -> None:
    kinds = ("accelerator", "cpu", "overhead", "idle")
    ledger = {"layers": [layers(layer=kind, label=kind)["layers"][0] for kind in kinds]}
    chart = account_charts.ledger_bars(ledger | {"narrow_j": 90.0, "it_j": 180.0, "full_j": 270.0})
    held = {trace["name"]: trace["y"] for trace in chart.figure["data"]}
    assert held == {
        "accelerator": ["narrow", "IT", "full"],
        "cpu": ["IT", "full"],
        "overhead": ["full"],
        "idle": ["idle, within"],
    }
    assert chart.figure["layout"]["barmode"] == "stack"


def test_parts_of_the_chassis_are_not_stacked_on_it() -> None:
    parts = (("accelerator", "host"), ("cpu", "host"), ("host", ""))
    ledger = {"layers": [layers(layer=kind, label=kind, within=held)["layers"][0] for kind, held in parts]}
    chart = account_charts.ledger_bars(ledger | {"narrow_j": 90.0, "it_j": 180.0, "full_j": None})
    assert {trace["name"]: trace["y"] for trace in chart.figure["data"]} == {
        "accelerator": ["narrow"],
        "cpu": [],
        "host": ["IT"],
    }


def test_an_unknown_pue_leaves_no_full_bar() -> None:
    (trace,) = account_charts.ledger_bars(layers()).figure["data"]
    assert trace["y"] == ["IT"]


def test_the_own_place_comes_first_and_market_based_figures_stand_beside() -> None:
    chart = account_charts.carbon_by_region(Place("here", 1.2, 0.3, None), [Place("there", 1.1, 0.1, 0.0)], 4)
    bars, market = chart.figure["data"]
    assert (bars["y"], bars["x"]) == (["here (this run)", "there"], [0.3, 0.1])
    assert (market["y"], market["x"]) == (["there"], [0.0])
    assert chart.note.startswith("4 places between are left out.")


def test_long_names_of_places_stand_in_short_lines_and_are_whole_where_one_points() -> None:
    long = "Amazon Web Services ap-southeast-1, Asia Pacific <Singapore>"
    endless = "word " * 40
    places = [Place(name, 1.2, 0.3, None) for name in (long, endless, "x" * 200)]
    figure = account_charts.carbon_by_region(places[0], places[1:], 0).figure
    y = figure["layout"]["yaxis"]
    assert y["tickvals"] == figure["data"][0]["y"]
    assert y["ticktext"][0].split("<br>") == [
        "Amazon Web Services",
        "ap-southeast-1, Asia",
        "Pacific &lt;Singapore&gt;",
        "(this run)",
    ]
    assert all(len(line) <= 24 for text in y["ticktext"][1:] for line in text.split("<br>"))
    assert figure["layout"]["height"] >= 3 * 4 * 13
    assert "Pacific &lt;Singapore&gt; (this run)" in figure["data"][0]["customdata"][0]


def test_progress_without_a_value_leaves_a_gap() -> None:
    point = {"t_s": 1.0, "output_tokens_per_s": None, "ttft_ms": 4.0}
    traces = charts.live([point]).figure["data"]
    assert [trace["y"] for trace in traces] == [[None], [4.0]]


@pytest.mark.parametrize("background", ["#ffffff", "#151b20"])
@pytest.mark.parametrize("colour", [*charts.COLOURS, charts.FAILURE])
def test_every_colour_stands_out_on_both_themes(colour: str, background: str) -> None:
    lighter, darker = sorted((_luminance(colour), _luminance(background)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 3


def _luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
