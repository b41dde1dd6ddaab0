"""AMD GPUs behind a stand-in for AMD's own Python module."""

import sys
from pathlib import Path

import pytest

from runners.power.energy import window_ledger
from runners.power.sources.amd import AmdSource

S = 1_000_000_000
ROOT = Path(__file__).parents[4]


@pytest.fixture
def smi(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/stand_ins"))
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    import amdsmi

    monkeypatch.setitem(sys.modules, "amdsmi", amdsmi)
    return amdsmi


def codes(source):
    return [note.code for note in source.notes]


def played(smi, steps, **gpu):
    """Rows of one GPU whose accumulator shows these (steps, stamp in s); the first serves the opening."""
    smi.GPUS = [smi.Gpu("u0", steps=[(value, int(t_s * S)) for value, t_s in steps[:1] + steps], **gpu)]
    source = AmdSource({})
    rows = []
    for _, t_s in steps:
        rows += [{**row, "t_ns": int(t_s * S)} for row in source.read()]
    cap_mw = rows[0]["power_limit_mw"]  # read once a second, and all of this takes less
    return source, [{**row, "power_limit_mw": cap_mw} for row in rows]


def steps_of(joules_per_s, seconds, resolution_uj=15.259):
    return [(10**6 + int(joules_per_s * i / 10 * 1e6 / resolution_uj), i / 10) for i in range(int(seconds * 10))]


def test_steps_times_resolution_are_microjoules(smi, table, description):
    source, rows = played(smi, steps_of(300, 14), watts=300.0)
    ledger = window_ledger(table(rows), 2 * S, 12 * S, description=description(*source.devices()))
    assert ledger["it_j"] == pytest.approx(3000, rel=0.001)
    assert ledger["instruments"][0]["verdict"] == "agree"


def test_several_gpus_add_up_and_the_cap_is_in_watts_or_microwatts(smi):
    smi.GPUS = [smi.Gpu("u0"), smi.Gpu("u1", power_cap=750), smi.Gpu("u2", power_cap="N/A")]
    source = AmdSource({})
    assert [device.id for device in source.devices()] == ["u0", "u1", "u2"]
    assert [row["power_limit_mw"] for row in source.read()] == [750_000, 750_000, None]


def test_an_accumulator_that_goes_backwards_loses_the_interval(smi, table, description):
    steps = steps_of(300, 8)
    steps[40:] = [(value - 20_000_000, t_s) for value, t_s in steps[40:]]
    source, rows = played(smi, steps, watts=300.0)
    ledger = window_ledger(table(rows), 2 * S, 6 * S, description=description(*source.devices()))
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "counter_reset")


def test_a_small_step_back_is_no_wrap_either(smi, table, description):
    steps = steps_of(300, 8)
    steps[40] = (steps[39][0] - 10, steps[40][1])
    source, rows = played(smi, steps, watts=300.0)
    ledger = window_ledger(table(rows), 2 * S, 6 * S, description=description(*source.devices()))
    assert ledger["it_j"] is None


def test_energy_beyond_the_cap_is_not_believed(smi, table, description):
    source, rows = played(smi, steps_of(5000, 14), watts=300.0)
    ledger = window_ledger(table(rows), 2 * S, 12 * S, description=description(*source.devices()))
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "power_out_of_range")


def test_an_accumulator_that_stands_still_is_stale(smi, table, description):
    source, rows = played(smi, [(10**6, i / 10) for i in range(140)], watts=300.0)
    ledger = window_ledger(table(rows), 2 * S, 12 * S, description=description(*source.devices()))
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "counter_stale")


def test_a_stamp_that_stands_still_is_the_same_reading_again(smi):
    _, rows = played(smi, [(10**6, 1.0), (10**6 + 5, 1.0), (10**6 + 9, 2.0)])
    assert [row.get("energy_mj") is not None for row in rows] == [True, False, True]


def test_without_an_accumulator_power_is_integrated(smi, table, description):
    smi.GPUS = [smi.Gpu("u0", unsupported={"energy", "activity"})]
    source = AmdSource({})
    rows = [{**row, "t_ns": i * S // 10} for i in range(120) for row in source.read()]
    ledger = window_ledger(table(rows), S, 11 * S, description=description(*source.devices()))
    assert ledger["it_j"] == pytest.approx(2500)
    assert ledger["layers"][0]["method"] == "power_integral"


def test_a_guest_without_energy_and_power_is_a_note_and_no_zero(smi):
    smi.GPUS = [smi.Gpu("u0", unsupported={"energy", "power"})]
    source = AmdSource({})
    assert (source.devices(), codes(source)) == ([], ["gpu_unusable"])


def test_a_driver_that_is_not_loaded_says_what_to_load(smi, monkeypatch):
    monkeypatch.setattr(smi, "DRIVER", False)
    source = AmdSource({})
    assert (source.devices(), codes(source)) == ([], ["amd_no_driver"])
    assert "modprobe amdgpu" in source.notes[0].text


def test_only_visible_gpus_are_measured(smi):
    smi.GPUS = [smi.Gpu(f"u{i}") for i in range(8)]
    source = AmdSource({"ROCR_VISIBLE_DEVICES": "3"})
    assert ([device.id for device in source.devices()], codes(source)) == (["u3"], ["bystanders"])
    unclear = AmdSource({"HIP_VISIBLE_DEVICES": "GPU-4b2c"})
    assert (len(unclear.devices()), codes(unclear)) == (8, ["amd_visible_devices"])
