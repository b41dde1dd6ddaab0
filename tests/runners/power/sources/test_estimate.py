import os
import time

import pytest

from runners.power.devices import SourceError
from runners.power.sources.estimate import EstimateSource, cpu_name


@pytest.fixture
def stat(tmp_path):
    """Sets /proc/stat's first line: user nice system idle iowait irq softirq steal guest guest_nice."""
    path = tmp_path / "stat"

    def write(user=0, idle=0, iowait=0, steal=0):
        path.write_text(f"cpu  {user} 0 0 {idle} {iowait} 0 0 {steal} 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\n")
        return path

    return write


def watts(source):
    return source.read()[0]["power_mw"] / 1e3


def test_power_goes_from_idle_to_maximum_with_utilisation(stat):
    source = EstimateSource(10, 110, stat_path=stat())
    stat(idle=100)
    assert watts(source) == pytest.approx(10)
    stat(idle=150, user=50)
    assert watts(source) == pytest.approx(60)
    stat(idle=150, user=150)
    assert watts(source) == pytest.approx(110)


def test_published_watts_per_logical_cpu_stand_in_for_unknown_ones_and_are_named(stat):
    source = EstimateSource(stat_path=stat())
    stat(idle=100)
    assert watts(source) == pytest.approx(0.74 * os.cpu_count())
    stat(idle=100, user=100)
    assert watts(source) == pytest.approx(3.5 * os.cpu_count())
    assert "Cloud Carbon Footprint" in source.notes[0].text


def test_one_known_end_scales_the_other(stat):
    for source in (EstimateSource(max_w=350, stat_path=stat()), EstimateSource(idle_w=74, stat_path=stat())):
        stat(idle=100)
        assert watts(source) == pytest.approx(74)
        stat()


def test_waiting_for_disks_and_stolen_time_are_not_ours(stat):
    source = EstimateSource(10, 110, stat_path=stat())
    stat(iowait=50, steal=50)
    assert watts(source) == pytest.approx(10)


def test_energy_is_power_over_the_time_between_readings(stat):
    source = EstimateSource(100, 100, stat_path=stat())
    stat(idle=1)
    first = source.read()[0]
    time.sleep(0.05)
    stat(idle=2)
    second = source.read()[0]
    assert second["energy_mj"] - first["energy_mj"] == pytest.approx(100e3 * (second["t_ns"] - first["t_ns"]) / 1e9)


def test_a_reading_before_the_kernel_has_counted_on_gives_no_row(stat):
    source = EstimateSource(stat_path=stat(idle=5))
    assert source.read() == []


def test_it_is_marked_modelled_with_half_of_it_as_error(stat):
    device = EstimateSource(stat_path=stat()).devices()[0]
    assert (device.mark, device.gain_low, device.gain_high) == ("modelled", 0.5, 1.5)


def test_impossible_watts_are_refused_with_the_fields_named(stat):
    for idle_w, max_w in ((50, 10), (-1, 10), (0, 0)):
        with pytest.raises(SourceError, match="cpu_idle_w"):
            EstimateSource(idle_w, max_w, stat_path=stat())


def test_no_proc_stat_is_a_note(tmp_path):
    source = EstimateSource(stat_path=tmp_path / "nothing")
    assert (source.devices(), [note.code for note in source.notes]) == ([], ["estimate_unavailable"])


def test_a_file_of_another_form_is_a_note(tmp_path):
    (tmp_path / "stat").write_text("intr 5\n")
    assert EstimateSource(stat_path=tmp_path / "stat").devices() == []


def test_a_cpu_without_a_name_is_called_cpu(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nBogoMIPS : 50\n")
    assert cpu_name(tmp_path / "cpuinfo") == cpu_name(tmp_path / "nothing") == "CPU"
    assert cpu_name() != ""
