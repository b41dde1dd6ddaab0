import json

import pytest

from runners.metrics import Mark
from runners.power.devices import Layer
from runners.power.energy import mean_power_w, window_ledger

S = 1_000_000_000


@pytest.fixture
def rows():
    """Readings every 50 ms from 2 s before the window until 2 s after 40 s; counter and power of constant watts."""

    def make(device_id="gpu", watts=250.0, counter_watts=None, layer="accelerator", until_s=42.0, **more):
        counter_w = watts if counter_watts is None else counter_watts
        return [
            {
                "t_ns": i * S // 20,
                "device": device_id,
                "layer": layer,
                "power_mw": watts * 1e3,
                "energy_mj": i // 2 * counter_w * 100 + 1e6,
                **more,
            }
            for i in range(-40, int(until_s * 20))
        ]

    return make


def codes(ledger):
    return [reason["code"] for reason in ledger["reasons"]]


def test_a_ledger_has_the_keys_that_the_result_files_promise(rows, device, description, table):
    ledger = window_ledger(table(rows()), 0, 40 * S, description=description(device()))
    assert set(ledger) == {
        "window_s", "short", "layers", "narrow_j", "it_j", "full_j", "boundary", "mark", "instruments", "states",
        "reasons",
    }  # fmt: skip
    assert set(ledger["layers"][0]) == {
        "layer", "pool", "within", "label", "energy_j", "low_j", "high_j", "mark", "method", "source", "note",
        "sampled_by",
    }  # fmt: skip
    assert json.loads(json.dumps(ledger, allow_nan=False)) == ledger


def test_counter_and_power_that_agree_give_one_figure(rows, device, description, table):
    ledger = window_ledger(table(rows()), 0, 40 * S, description=description(device()))
    assert ledger["it_j"] == pytest.approx(10_000)
    assert ledger["narrow_j"] == ledger["it_j"]
    assert ledger["instruments"] == [
        {
            "device": "gpu",
            "counter_j": pytest.approx(10_000),
            "integral_j": pytest.approx(10_000),
            "ratio": pytest.approx(1),
            "verdict": "agree",
        }
    ]
    assert ledger["layers"][0]["method"] == "counter"
    assert (ledger["boundary"], ledger["mark"], ledger["reasons"], ledger["short"]) == (
        "accelerator", "measured", [], False
    )  # fmt: skip


def test_the_band_holds_board_gain_and_an_update_at_each_edge(rows, device, description, table):
    layer = window_ledger(table(rows()), 0, 40 * S, description=description(device()))["layers"][0]
    assert layer["low_j"] == pytest.approx(9_500 - 2 * 25)
    assert layer["high_j"] == pytest.approx(10_500 + 2 * 25)


def test_instruments_that_differ_by_more_than_five_percent_disagree_and_both_are_shown(
    rows, device, description, table
):
    ledger = window_ledger(table(rows(counter_watts=300)), 0, 40 * S, description=description(device()))
    instrument = ledger["instruments"][0]
    assert (instrument["verdict"], instrument["ratio"]) == ("disagree", pytest.approx(1.2))
    assert (instrument["counter_j"], instrument["integral_j"]) == (pytest.approx(12_000), pytest.approx(10_000))
    assert codes(ledger) == ["disagree"]
    assert ledger["layers"][0]["low_j"] < 10_000 < 12_000 < ledger["layers"][0]["high_j"]


def test_without_a_counter_power_is_integrated_and_said_so(rows, device, description, table):
    card = device(counter=False)
    samples = table([{**row, "energy_mj": None} for row in rows()])
    ledger = window_ledger(samples, 0, 10 * S, description=description(card))
    assert ledger["it_j"] == pytest.approx(2500)
    assert ledger["layers"][0]["method"] == "power_integral"
    assert ledger["instruments"][0]["verdict"] == "single"


def test_devices_are_summed_and_not_averaged(rows, device, description, table):
    cards = [device(f"gpu{i}") for i in range(4)]
    samples = table([row for card in cards for row in rows(card.id, watts=300)])
    ledger = window_ledger(samples, 0, 10 * S, description=description(*cards))
    assert ledger["it_j"] == pytest.approx(12_000)
    assert ledger["layers"][0]["label"] == "4 × Card"
    assert mean_power_w(samples, 0, 10 * S, description=description(*cards)) == pytest.approx(1200)


def test_fewer_than_twenty_updates_give_no_number(rows, device, description, table):
    samples = table(rows())
    ledger = window_ledger(samples, 0, 2 * S - 1, description=description(device()))
    assert (ledger["it_j"], ledger["narrow_j"], codes(ledger)) == (None, None, ["window_too_short"])
    assert window_ledger(samples, 0, 2 * S, description=description(device()))["it_j"] == pytest.approx(500)


def test_two_reads_of_the_same_value_a_millisecond_apart_are_refused(device, description, table):
    samples = table([{"t_ns": t, "device": "gpu", "energy_mj": 123456.0} for t in (0, S // 1000)])
    ledger = window_ledger(samples, 0, S // 1000, description=description(device()))
    assert (ledger["it_j"], codes(ledger)) == (None, ["window_too_short"])


def test_a_window_under_thirty_seconds_is_marked_short(rows, device, description, table):
    samples = table(rows())
    assert window_ledger(samples, 0, 29 * S, description=description(device()))["short"]
    assert not window_ledger(samples, 0, 30 * S, description=description(device()))["short"]


def test_a_stale_counter_gives_no_number_though_power_is_shown(rows, device, description, table):
    samples = table([{**row, "energy_mj": 5e6} for row in rows(watts=300)])
    ledger = window_ledger(samples, 0, 10 * S, description=description(device()))
    assert (ledger["it_j"], codes(ledger)) == (None, ["counter_stale"])
    assert ledger["instruments"][0]["counter_j"] is None
    assert ledger["instruments"][0]["integral_j"] == pytest.approx(3000)


def test_impossible_power_is_not_believed(rows, device, description, table):
    samples = table(rows(watts=5000, power_limit_mw=750e3))
    ledger = window_ledger(samples, 0, 10 * S, description=description(device()))
    assert (ledger["it_j"], codes(ledger)) == (None, ["power_out_of_range"])


def test_a_tenth_above_the_limit_is_still_believed(rows, device, description, table):
    samples = table(rows(watts=770, power_limit_mw=700.1e3))
    assert window_ledger(samples, 0, 10 * S, description=description(device()))["it_j"] == pytest.approx(7700)


def test_a_lost_gpu_invalidates_every_window_from_there_on(rows, device, description, table):
    samples = table([*rows(until_s=20.0), {"t_ns": 20 * S, "device": "gpu", "reason": "gpu_lost"}])
    account = description(device())
    assert window_ledger(samples, 0, 10 * S, description=account)["it_j"] == pytest.approx(2500)
    for start, end in ((10, 21), (25, 35)):
        ledger = window_ledger(samples, start * S, end * S, description=account)
        assert (ledger["it_j"], codes(ledger)) == (None, ["gpu_lost"])


def test_one_lost_gpu_leaves_the_total_without_a_number_but_not_the_others(rows, device, description, table):
    cards = [device("gpu0"), device("gpu1", name="Other")]
    lost = [*rows("gpu0", until_s=5.0), {"t_ns": 5 * S, "device": "gpu0", "reason": "gpu_lost"}]
    ledger = window_ledger(table(lost + rows("gpu1")), 0, 10 * S, description=description(*cards))
    assert (ledger["narrow_j"], ledger["it_j"], ledger["layers"][0]["energy_j"]) == (None, None, None)
    assert [row["counter_j"] for row in ledger["instruments"]] == [None, pytest.approx(2500)]
    assert ledger["reasons"][0]["text"].startswith("Card:")


def test_a_dead_sampler_is_the_reason_only_where_its_samples_end_too_early(rows, device, description, table):
    account = description(device(), notes=({"code": "sampler_lost", "text": ""},))
    samples = table(rows(until_s=20.0))
    assert window_ledger(samples, 0, 10 * S, description=account)["it_j"] == pytest.approx(2500)
    assert codes(window_ledger(samples, 10 * S, 30 * S, description=account)) == ["sampler_lost"]


@pytest.fixture
def host(device):
    return device(
        "cpu", name="CPU", layer=Layer.CPU, source="estimate", mark=Mark.MODELLED, power_column=None,
        gain_low=0.5, gain_high=1.5,
    )  # fmt: skip


@pytest.fixture
def whole(rows, device, host, description, table):
    """A ledger of a card of 250 W and a modelled host of 50 W over 40 s."""
    samples = table(rows() + rows("cpu", watts=50, layer="cpu"))

    def make(**more):
        return window_ledger(samples, 0, 40 * S, description=description(host, device()), **more)

    return make


def test_host_and_accelerator_make_the_it_energy_under_the_weaker_mark(whole):
    ledger = whole()
    assert (ledger["narrow_j"], ledger["it_j"]) == (pytest.approx(10_000), pytest.approx(12_000))
    assert (ledger["boundary"], ledger["mark"]) == ("accelerator+cpu", "modelled")
    assert [layer["method"] for layer in ledger["layers"]] == ["counter", "model"]
    assert ledger["instruments"][1]["verdict"] == "single"


def test_unknown_pue_leaves_facility_energy_unknown(whole):
    ledger = whole()
    assert ledger["full_j"] is None
    assert "overhead" not in [layer["layer"] for layer in ledger["layers"]]


def test_a_known_pue_adds_an_assumed_overhead_with_its_source(whole):
    ledger = whole(pue=1.2, pue_source="the landlord")
    overhead = ledger["layers"][-1]
    assert ledger["full_j"] == pytest.approx(14_400)
    assert (overhead["layer"], overhead["mark"], overhead["source"]) == ("overhead", "assumed", "the landlord")
    assert overhead["energy_j"] == pytest.approx(2_400)
    assert ledger["it_j"] == pytest.approx(12_000)


def test_idle_is_listed_apart_and_never_added(whole):
    ledger = whole(idle_w=100.0)
    idle = next(layer for layer in ledger["layers"] if layer["layer"] == "idle")
    assert idle["energy_j"] == pytest.approx(4_000)
    assert (ledger["it_j"], ledger["boundary"]) == (pytest.approx(12_000), "accelerator+cpu")
    assert "idle" not in [layer["layer"] for layer in whole()["layers"]]


def test_overhead_has_the_band_of_the_energy_and_of_the_pue(whole):
    it = [layer for layer in whole()["layers"] if layer["layer"] != "overhead"]
    low_j, high_j = (sum(layer[key] for layer in it) for key in ("low_j", "high_j"))
    overhead = whole(pue=1.2, pue_bounds=(1.1, 1.4))["layers"][-1]
    assert (overhead["low_j"], overhead["high_j"]) == (pytest.approx(low_j * 0.1), pytest.approx(high_j * 0.4))
    narrow = whole(pue=1.2)["layers"][-1]
    assert (narrow["low_j"], narrow["high_j"]) == (pytest.approx(low_j * 0.2), pytest.approx(high_j * 0.2))


def test_idle_has_the_band_of_its_power_where_that_is_known(whole):
    for bounds, expected in (((90.0, 120.0), (3_600, 4_800)), (None, (None, None))):
        found = whole(idle_w=100.0, idle_bounds_w=bounds)
        idle = next(layer for layer in found["layers"] if layer["layer"] == "idle")
        assert (idle["low_j"], idle["high_j"]) == expected


def test_active_and_idle_add_up_to_the_node(rows, host, description, table):
    ledger = window_ledger(
        table(rows("cpu", watts=100, layer="cpu")), 0, 40 * S, description=description(host), idle_w=60.0
    )
    idle_w = ledger["layers"][1]["energy_j"] / 40
    assert (idle_w, ledger["it_j"] / 40 - idle_w) == (pytest.approx(60), pytest.approx(40))


def test_without_devices_every_total_is_missing(description, table):
    ledger = window_ledger(table([]), 0, 40 * S, description=description(), pue=1.2)
    assert (ledger["narrow_j"], ledger["it_j"], ledger["full_j"], ledger["mark"]) == (None, None, None, None)
    assert (ledger["layers"], codes(ledger)) == ([], ["no_power"])
    assert mean_power_w(table([]), 0, 40 * S, description=description()) is None


def test_mean_power_is_missing_when_one_device_has_no_number(rows, device, host, description, table):
    account = description(device(), host)
    assert mean_power_w(table(rows()), 0, 10 * S, description=account) is None
    samples = table(rows() + rows("cpu", watts=50, layer="cpu"))
    assert mean_power_w(samples, 0, 10 * S, description=account) == pytest.approx(300)


def test_repeated_readings_are_taken_once(device, description, table):
    """A sensor that gave 100 W, then was read again and again with the same stamp, then 300 W."""
    fixed = [{"device": "gpu", "power_mw": 100e3, "sensor_t_us": 0, "t_ns": t * S // 10} for t in range(1, 30)]
    ends = [{"device": "gpu", "power_mw": w * 1e3, "sensor_t_us": t * 10**6, "t_ns": t * S} for t, w in
            ((0, 100), (3, 300), (6, 300))]  # fmt: skip
    samples = table(sorted(fixed + ends, key=lambda row: row["t_ns"]))
    ledger = window_ledger(samples, 0, 5 * S, description=description(device(counter=False)))
    assert ledger["it_j"] == pytest.approx(3 * 200 + 2 * 300, rel=0.01)  # a reading is taken to be half an update old
