"""The energy of a simulated run, added at its end or put to it afterwards."""

from dataclasses import replace

import pyarrow as pa
import pytest

from runners.energies import add_energy, with_power
from runners.load.plan import fixed_stages
from runners.load.summary import summarise, summarise_stage
from tests.simulation import MONOTONIC_START_NS, Plan, power_facts, power_rows, request_rows

NS = 1_000_000_000
IDLE_NS = [MONOTONIC_START_NS - 5 * NS // 2, MONOTONIC_START_NS - NS // 4]
PLAN = Plan(levels=(2, 8), requests=240)
SPEC = replace(PLAN.spec(), account=replace(PLAN.spec().account, queries_per_hour=1000.0, pue=1.2, pue_source="site"))


@pytest.fixture(scope="module")
def rows():
    return request_rows(PLAN)[0]


@pytest.fixture(scope="module")
def samples():
    return power_rows(PLAN, request_rows(PLAN)[1])


@pytest.fixture
def power():
    return power_facts(PLAN) | {"idle_w": 102.0, "idle_mark": "measured", "period_ms": 100.0}


@pytest.fixture
def bare(rows):
    """The summary of a run that measured no power."""
    nothing = {"source": "none", "mark": None, "devices": [], "notes": [], "idle_w": None, "idle_mark": None,
               "idle_windows_ns": {"before": IDLE_NS}}  # fmt: skip
    stages = [summarise_stage(rows, plan, SPEC) for plan in fixed_stages(SPEC)]
    facts = add_energy(stages, rows, pa.table({}), nothing, SPEC)
    return summarise(rows, SPEC, stages, power=nothing, **facts)


def test_without_devices_there_is_no_energy_at_all(bare):
    stage = bare["stages"][0]
    assert (stage["energy"], stage["energy_whole"], stage["energy_duty"], bare["energy"]) == (None, None, None, None)
    assert "wh_per_query" not in stage["metrics"]


def test_power_that_comes_later_gives_what_it_would_have_given_at_once(bare, rows, samples, power):
    later = with_power(bare, rows, samples, power)
    stage = later["stages"][1]
    mean = stage["metrics"]["wh_per_query"]["mean"]
    assert mean == pytest.approx(stage["energy"]["it_j"] / 3600 / stage["metrics"]["wh_per_query"]["n"], rel=0.02)
    assert stage["metrics"]["wh_per_query"]["low"] < mean < stage["metrics"]["wh_per_query"]["high"]
    assert later["power"]["idle_w"] == pytest.approx(102, rel=0.05)  # read anew from the samples of the idle window
    assert stage["metrics"]["ttft_ms"] == bare["stages"][1]["metrics"]["ttft_ms"]
    assert "wh_per_query" not in bare["stages"][1]["metrics"]  # what was given is left as it was


def test_three_windows_tell_what_a_query_took(bare, rows, samples, power):
    later = with_power(bare, rows, samples, power)
    stage = later["stages"][1]
    whole, duty, run = stage["energy_whole"], stage["energy_duty"], later["energy"]
    assert whole["seconds"] >= stage["energy"]["window_s"]
    assert whole["queries"] == pytest.approx(240)
    assert run["queries"] == 480
    assert run["it_j"] > whole["it_j"]
    assert duty["wh_per_query"] > stage["metrics"]["wh_per_query"]["mean"]
    assert duty["full_wh_per_query"] == pytest.approx(1.2 * duty["wh_per_query"])
    assert 0 < duty["busy_share"] < 1


def test_a_fault_of_the_sampling_leaves_no_total_and_says_why(bare, rows, samples, power):
    fault = {"code": "power_worker_lost", "text": "the power worker gpu-2 fell silent"}
    later = with_power(bare, rows, samples, power | {"fault": fault})
    stage = later["stages"][0]
    assert (stage["energy"]["it_j"], stage["energy"]["narrow_j"], stage["energy"]["full_j"]) == (None, None, None)
    assert stage["energy"]["reasons"][0] == fault
    assert "overhead" not in {layer["layer"] for layer in stage["energy"]["layers"]}
    assert not {"wh_per_query", "wh_per_query_median", "power_w"} & set(stage["metrics"])
    assert later["attribution"] is None
    assert later["energy"]["wh_per_query"] is None
    assert later["valid"] == bare["valid"]


def test_the_load_hosts_own_energy_is_kept_beside_and_in_no_ledger(bare, rows, samples, power):
    gpu, cpu = power["devices"]
    client = {"host": "load-1", "devices": [cpu], "source": "rapl", "mark": "measured", "notes": []}
    later = with_power(bare, rows, samples, power | {"devices": [gpu], "client": client})
    stage = later["stages"][1]
    assert stage["energy"]["boundary"] == "accelerator"
    assert stage["client_energy"]["host"] == "load-1"
    assert stage["client_energy"]["power_w"] == pytest.approx(30, rel=0.1)
    assert stage["energy"]["it_j"] == stage["energy"]["narrow_j"]


def test_clocks_that_may_differ_widen_the_band(bare, rows, samples, power):
    exact = with_power(bare, rows, samples, power)["stages"][1]["energy"]["layers"][0]
    devices = [device | {"host": "gpu-1", "clock_bound_ms": 50.0} for device in power["devices"]]
    loose = with_power(bare, rows, samples, power | {"devices": devices})["stages"][1]["energy"]["layers"][0]
    assert loose["energy_j"] == exact["energy_j"]
    assert loose["high_j"] > exact["high_j"]
    assert loose["low_j"] < exact["low_j"]
    assert (loose["sampled_by"], exact["sampled_by"]) == ("gpu-1", "")
