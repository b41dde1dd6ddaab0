import os
import shutil
import tempfile
from pathlib import Path

import pytest

from runners.power.devices import Layer, SourceError
from runners.power.energy import window_ledger
from runners.power.sources.rapl import RaplSource, shortest_wrap_s

S = 1_000_000_000


@pytest.fixture
def powercap(tmp_path):
    """A tree as the kernel shows it: psys, one package with core and DRAM, and the mmio twin of the package."""

    def domain(folder, name, energy_uj=1_000_000, range_uj=262_143_328_850):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "name").write_text(f"{name}\n")
        (tmp_path / folder / "energy_uj").write_text(f"{energy_uj}\n")
        (tmp_path / folder / "max_energy_range_uj").write_text(f"{range_uj}\n")

    domain("intel-rapl:0", "package-0")
    domain("intel-rapl:0:0", "core")
    domain("intel-rapl:0:1", "dram", range_uj=65_712_999_613)
    domain("intel-rapl:1", "psys")
    domain("intel-rapl-mmio:0", "package-0")
    return tmp_path


def gain(path: Path, joules: float) -> None:
    counter = path / "energy_uj"
    counter.write_text(str(int(counter.read_text()) + int(joules * 1e6)))


def codes(source):
    return [note.code for note in source.notes]


def test_packages_and_dram_are_read_and_psys_never(powercap):
    source = RaplSource(powercap)
    assert [(device.id, device.name, device.layer) for device in source.devices()] == [
        ("intel-rapl:0", "package-0", Layer.CPU),
        ("intel-rapl:0:1", "dram of package-0", Layer.DRAM),
    ]
    assert [row["energy_mj"] for row in source.read()] == [1000.0, 1000.0]
    assert source.notes == []


def test_power_is_the_mean_since_the_reading_before(powercap):
    source = RaplSource(powercap)
    first = source.read()[0]
    gain(powercap / "intel-rapl:0", 30)
    second = source.read()[0]
    assert first["power_mw"] is None
    assert second["power_mw"] == pytest.approx(30e3 / ((second["t_ns"] - first["t_ns"]) / 1e9))


def test_energy_of_a_window_goes_over_a_wrap(powercap, table, description):
    (powercap / "intel-rapl:0" / "energy_uj").write_text("262143000000")
    source = RaplSource(powercap)
    rows = []
    for i in range(-4, 30):
        counter = powercap / "intel-rapl:0" / "energy_uj"
        counter.write_text(str((int(counter.read_text()) + 10_000_000) % 262_143_328_850))
        gain(powercap / "intel-rapl:0:1", 1)
        rows += [{**row, "t_ns": i * S // 10} for row in source.read()]
    ledger = window_ledger(table(rows), 0, 2 * S, description=description(*source.devices()))
    assert [layer["energy_j"] for layer in ledger["layers"]] == [pytest.approx(200), pytest.approx(20)]
    assert (ledger["boundary"], ledger["mark"], ledger["narrow_j"]) == ("cpu+dram", "measured", None)


def test_a_wrap_without_a_readable_range_loses_the_interval_and_not_the_run(powercap, table, description):
    (powercap / "intel-rapl:0" / "max_energy_range_uj").unlink()
    shutil.rmtree(powercap / "intel-rapl:0:1")
    source = RaplSource(powercap)
    assert codes(source) == ["rapl_no_range"]
    rows = []
    for i in range(-4, 60):
        (powercap / "intel-rapl:0" / "energy_uj").write_text(str(262_143_000_000 + i if i < 10 else 500_000 + i))
        rows += [{**row, "t_ns": i * S // 10} for row in source.read()]
    account = description(*source.devices())
    ledger = window_ledger(table(rows), 0, 2 * S, description=account)
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "wrap_unresolvable")
    assert window_ledger(table(rows), 2 * S, 5 * S, description=account)["it_j"] is not None


def test_a_refused_counter_is_a_note_that_says_how_to_grant_it():
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        (folder / "intel-rapl:0").mkdir(mode=0o755)
        (folder / "intel-rapl:0" / "name").write_text("package-0")
        (folder / "intel-rapl:0" / "energy_uj").touch(mode=0o400)
        (folder / "intel-rapl:0" / "energy_uj").chmod(0o000 if os.geteuid() else 0o400)
        user = os.geteuid()
        os.seteuid(65534 if user == 0 else user)
        try:
            source = RaplSource(folder)
        finally:
            os.seteuid(user)
    finally:
        shutil.rmtree(folder)
    assert (source.devices(), codes(source)) == ([], ["rapl_permission"])
    assert "chmod g+r" in source.notes[0].text


def test_no_powercap_is_a_note(tmp_path):
    source = RaplSource(tmp_path / "nothing")
    assert (source.devices(), source.read(), codes(source)) == ([], [], ["rapl_missing"])


def test_a_counter_at_zero_since_boot_is_left_out(powercap):
    (powercap / "intel-rapl:0:1" / "energy_uj").write_text("0")
    source = RaplSource(powercap)
    assert [device.layer for device in source.devices()] == [Layer.CPU]
    assert codes(source) == ["rapl_dead_counter"]


def test_a_counter_that_vanishes_gives_no_row_and_no_zero(powercap):
    source = RaplSource(powercap)
    (powercap / "intel-rapl:0" / "energy_uj").unlink()
    assert [row["device"] for row in source.read()] == ["intel-rapl:0:1"]


def test_sampling_too_slow_to_see_every_wrap_is_refused(powercap):
    assert shortest_wrap_s(65_536e6, 200) == pytest.approx(327.68)
    with pytest.raises(SourceError, match="sample at least twice"):
        RaplSource(powercap, period_ms=600_000, max_domain_w=200)
    RaplSource(powercap, period_ms=100_000, max_domain_w=200)
