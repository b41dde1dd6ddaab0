"""Intel GPUs and ACPI power meters in trees as the kernel shows them."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from runners.power.devices import Layer
from runners.power.energy import window_ledger
from runners.power.sources.hwmon import HwmonSource
from runners.power.sources.xpu import XpuSource

S = 1_000_000_000


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")


def socket_meter(number, label, watts, folder="device/"):
    place = f"hwmon{number}"
    return {
        f"{place}/name": "power_meter",
        f"{place}/{folder}power1_average": int(watts * 1e6),
        f"{place}/{folder}power1_oem_info": label,
        f"{place}/{folder}power1_average_interval": 1000,
    }


def codes(source):
    return [note.code for note in source.notes]


# Intel GPUs


def test_the_card_is_preferred_to_its_package_and_tiles_are_not_added(tmp_path):
    write(
        tmp_path,
        {
            "hwmon2/name": "xe",
            "hwmon2/energy1_input": 900, "hwmon2/energy1_label": "pkg",
            "hwmon2/energy2_input": 5_000_000, "hwmon2/energy2_label": "card", "hwmon2/power2_max": 300_000_000,
            "hwmon3/name": "i915_gt0", "hwmon3/energy1_input": 777,
        },
    )  # fmt: skip
    source = XpuSource(tmp_path)
    (row,) = source.read()
    assert (row["energy_mj"], row["power_limit_mw"]) == (5000, 300_000)
    assert "(card)" in source.devices()[0].reading


def test_energy_of_an_intel_gpu_over_a_window(tmp_path, table, description):
    write(tmp_path, {"hwmon2/name": "i915", "hwmon2/energy1_input": 0, "hwmon2/power1_max": 0})
    source = XpuSource(tmp_path)
    rows = []
    for i in range(140):
        (tmp_path / "hwmon2/energy1_input").write_text(str(i * 15_000_000))
        rows += [{**row, "t_ns": i * S // 10} for row in source.read()]
    ledger = window_ledger(table(rows), 2 * S, 12 * S, description=description(*source.devices()))
    assert (ledger["it_j"], ledger["narrow_j"]) == (pytest.approx(1500), pytest.approx(1500))


def test_a_refused_counter_says_how_to_grant_it():
    folder = Path(tempfile.mkdtemp())
    user = os.geteuid()
    try:
        folder.chmod(0o755)
        write(folder, {"hwmon2/name": "i915", "hwmon2/energy1_input": 1})
        (folder / "hwmon2").chmod(0o755)
        (folder / "hwmon2/energy1_input").chmod(0o400 if user == 0 else 0o000)
        os.seteuid(65534 if user == 0 else user)
        try:
            source = XpuSource(folder)
        finally:
            os.seteuid(user)
    finally:
        shutil.rmtree(folder)
    assert (source.devices(), codes(source)) == ([], ["xpu_permission"])
    assert "sudo chmod a+r" in source.notes[0].text


# ACPI power meters


def test_the_socket_counts_and_not_one_rail_of_it(tmp_path):
    for number, (label, watts) in enumerate((("CPU", 53), ("Grace", 103), ("SysIO", 6), ("Module", 600))):
        write(tmp_path, socket_meter(number, f"{label} Power Socket 0", watts))
    source = HwmonSource(tmp_path)
    assert [row["power_mw"] for row in source.read()] == [103_000]
    assert [(device.name, device.layer) for device in source.devices()] == [("Grace Power Socket 0", Layer.CPU)]
    (note,) = source.notes
    assert note.code == "hwmon_coverage"
    assert "CPU Power Socket 0" in note.text


def test_each_socket_is_covered_by_itself(tmp_path):
    write(tmp_path, socket_meter(0, "Grace Power Socket 0", 103))
    write(tmp_path, socket_meter(1, "CPU Power Socket 1", 53, folder=""))
    source = HwmonSource(tmp_path)
    assert [row["power_mw"] for row in source.read()] == [103_000, 53_000]
    assert codes(source) == ["hwmon_coverage", "hwmon_one_rail"]
    assert source.devices()[1].gain_high == 2


def test_the_module_meter_is_never_the_cpu_for_it_holds_the_gpu(tmp_path):
    write(tmp_path, socket_meter(0, "Module Power Socket 0", 600))
    source = HwmonSource(tmp_path)
    assert (source.devices(), codes(source)) == ([], ["hwmon_no_socket"])


def test_a_meter_without_a_label_is_that_of_the_machine_and_holds_everything(tmp_path):
    write(tmp_path, socket_meter(0, "", 720))
    (device,) = HwmonSource(tmp_path).devices()
    assert (device.layer, device.power_window_ms) == (Layer.HOST, 1000)


def test_a_label_that_is_not_known_is_left_out_and_named(tmp_path):
    write(tmp_path, socket_meter(0, "Fan Tray", 40))
    source = HwmonSource(tmp_path)
    assert (source.devices(), codes(source)) == ([], ["hwmon_unknown"])
    assert "Fan Tray" in source.notes[0].text


def test_a_meter_that_vanishes_gives_no_zero(tmp_path):
    write(tmp_path, socket_meter(0, "Grace Power Socket 0", 103))
    source = HwmonSource(tmp_path)
    (tmp_path / "hwmon0/device/power1_average").unlink()
    assert source.read() == []
