"""Each joule of a machine counts once, however many instruments tell of it."""

import pytest

from runners.metrics import Mark
from runners.power.boundary import holders
from runners.power.devices import Layer
from runners.power.energy import mean_power_w, window_ledger

S = 1_000_000_000


@pytest.fixture
def ledger_of(device, description, table):
    """The ledger of ten seconds of devices given as (id, layer, source, W, mark)."""

    def make(*given, pue=None):
        devices = [
            device(
                name,
                layer=layer,
                source=source,
                mark=mark,
                counter=False,
                power_column="power_mw",
                name=f"{source} {name}",
            )
            for name, layer, source, _, mark in given
        ]
        rows = [
            {"t_ns": i * S // 10, "device": name, "layer": layer.value, "power_mw": watts * 1e3}
            for i in range(130)
            for name, layer, _, watts, _ in given
            if watts is not None
        ]
        samples, account = table(rows), description(*devices)
        ledger = window_ledger(samples, S, 11 * S, description=account, pue=pue)
        return ledger, mean_power_w(samples, S, 11 * S, description=account)

    return make


GPU = ("gpu", Layer.ACCELERATOR, "nvml", 700.0, Mark.MEASURED)
CPU = ("cpu", Layer.CPU, "estimate", 90.0, Mark.MODELLED)
CHASSIS = ("bmc", Layer.HOST, "redfish", 1000.0, Mark.MEASURED)


def within(ledger):
    return {layer["layer"]: layer["within"] for layer in ledger["layers"]}


def test_the_chassis_stands_for_its_parts_and_the_accelerator_is_shown_within(ledger_of):
    ledger, mean_w = ledger_of(GPU, CPU, CHASSIS)
    assert (ledger["it_j"], ledger["narrow_j"], mean_w) == (
        pytest.approx(10_000),
        pytest.approx(7_000),
        pytest.approx(1000),
    )
    assert within(ledger) == {"accelerator": "host", "cpu": "host", "host": ""}
    assert (ledger["boundary"], ledger["mark"]) == ("host", "measured")
    assert ledger["layers"][0]["note"].startswith("Inside the power of the host: not added to it.")


def test_overhead_is_reckoned_on_the_chassis_alone(ledger_of):
    ledger, _ = ledger_of(GPU, CHASSIS, pue=1.2)
    overhead = ledger["layers"][-1]
    assert ledger["full_j"] == pytest.approx(12_000)
    assert overhead["energy_j"] == pytest.approx(2_000)
    assert overhead["low_j"] < 2_000 < overhead["high_j"] < 2_300


def test_a_chassis_without_a_number_leaves_no_total_rather_than_a_part_of_it(ledger_of):
    ledger, mean_w = ledger_of(GPU, (*CHASSIS[:3], None, Mark.MEASURED))
    assert (ledger["it_j"], mean_w) == (None, None)
    assert ledger["narrow_j"] == pytest.approx(7_000)


def test_a_second_meter_of_the_same_machine_is_shown_and_not_added(ledger_of):
    ledger, mean_w = ledger_of(GPU, CHASSIS, ("plug", Layer.HOST, "meter", 1040.0, Mark.MEASURED))
    assert (ledger["it_j"], mean_w) == (pytest.approx(10_000), pytest.approx(1000))
    assert [layer["within"] for layer in ledger["layers"]] == ["host", "", "host"]
    assert "Another instrument of the same host counts" in ledger["layers"][2]["note"]


def test_two_instruments_of_one_cpu_count_once(ledger_of):
    ledger, _ = ledger_of(("pkg", Layer.CPU, "rapl", 100.0, Mark.MEASURED), CPU)
    assert (ledger["it_j"], ledger["mark"]) == (pytest.approx(1_000), "measured")


def test_accelerators_of_several_instruments_add_up(ledger_of):
    ledger, _ = ledger_of(GPU, ("other", Layer.ACCELERATOR, "dcgm", 300.0, Mark.MEASURED))
    assert ledger["it_j"] == ledger["narrow_j"] == pytest.approx(10_000)


def test_without_a_chassis_nothing_lies_within_anything():
    lines = [(Layer.ACCELERATOR, "nvml", ""), (Layer.CPU, "rapl", ""), (Layer.DRAM, "rapl", "")]
    assert holders(lines) == ["", "", ""]


def test_a_chassis_holds_what_is_in_it_and_nothing_of_another_machine():
    lines = [(Layer.ACCELERATOR, "dcgm", "a"), (Layer.ACCELERATOR, "dcgm", "b"), (Layer.HOST, "redfish", "a")]
    assert holders(lines) == ["host", "", ""]
