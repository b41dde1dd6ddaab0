import pytest

from runners.power.sources.nvml_sensors import gain, sensor, sensor_notes


@pytest.mark.parametrize(
    ("architecture", "name", "column", "instant_ms", "update_ms"),
    [
        (5, "Tesla V100-SXM2-32GB", "power_instant_mw", 10, 20),
        (7, "NVIDIA A100-SXM4-80GB", "power_instant_mw", 25, 100),
        (7, "NVIDIA A10", "power_instant_mw", 100, 100),
        (8, "NVIDIA L40S", "power_instant_mw", 100, 100),
        (9, "NVIDIA H100 80GB HBM3", "power_mw", 25, 100),
        (10, "NVIDIA B200", "power_mw", 25, 100),
        (13, "NVIDIA R100", "power_mw", 100, 100),
    ],
)
def test_each_generation_is_integrated_by_the_reading_that_stands_for_all_of_the_time(
    architecture, name, column, instant_ms, update_ms
):
    found = sensor(architecture, name)
    assert (found.integrate, found.instant_ms, found.update_ms) == (column, instant_ms, update_ms)


def test_sensors_that_look_part_of_the_time_or_are_unpublished_are_told():
    def codes(architecture, name):
        return [note.code for note in sensor_notes(name, sensor(architecture, name))]

    assert codes(7, "NVIDIA A100-SXM4-80GB") == ["sensor_part_time"]
    assert codes(10, "NVIDIA B200") == ["sensor_uncharacterised"]
    assert codes(0, "Something") == ["sensor_uncharacterised"]
    assert codes(9, "NVIDIA H200") == codes(8, "NVIDIA L4") == []


def test_the_band_of_an_unknown_card_is_five_percent_each_way():
    assert gain("NVIDIA H200")[:2] == (0.95, 1.05)


def test_a_card_that_was_found_to_read_low_has_a_band_that_reaches_up():
    low, high, source = gain("NVIDIA A100-PCIE-40GB")
    assert low == 1
    assert high == pytest.approx(1 / 0.927)
    assert "-7.3% to -4.3%" in source
    assert gain("NVIDIA A100 80GB PCIe")[:2] == (low, high)
    assert gain("NVIDIA A100-SXM4-80GB")[:2] == (0.95, 1.05)


def test_a_card_that_was_found_to_read_high_has_a_band_that_reaches_down():
    low, high, _ = gain("NVIDIA GeForce RTX 2060 SUPER")
    assert (low, high) == (pytest.approx(1 / 1.132), 1)
