"""The real NVML binding on scripted GPUs."""

import ctypes

import pynvml
import pytest

from runners.power.sources import nvml_reads


def codes(found):
    return [note["code"] for note in found["notes"]]


def test_a_gpu_gives_its_counter_both_power_fields_and_its_state(gpus, read_sources):
    gpus("gpus 1\nconstant 0 250000\nlimit 0 700000\n")
    found = read_sources()
    row = found["rows"][0]
    assert row["power_mw"] == row["power_instant_mw"] == pytest.approx(250_000, abs=2)
    assert row["energy_mj"] > 123_456_789
    assert row["sensor_t_us"] > 1_600_000_000_000_000
    assert (row["temperature_c"], row["utilisation_pct"], row["clock_mhz"], row["power_limit_mw"]) == (
        60, 87, 1980, 700_000
    )  # fmt: skip
    assert (row["layer"], found["source"], found["mark"]) == ("accelerator", "nvml", "measured")
    assert found["devices"][0]["name"] == "NVIDIA H200"


def test_answers_are_unpacked_in_the_form_of_the_binding():
    assert nvml_reads._FIELD_VALUE.size == ctypes.sizeof(pynvml.c_nvmlFieldValue_t)
    item = pynvml.c_nvmlFieldValue_t(fieldId=185, scopeId=1, timestamp=2, latencyUsec=3, valueType=4, nvmlReturn=5)
    item.value.uiVal = 6
    assert nvml_reads._FIELD_VALUE.unpack(item) == (185, 1, 2, 3, 4, 5, (6).to_bytes(8, "little"))


def test_mean_and_instant_power_are_two_named_series(gpus, read_sources):
    gpus("gpus 1\nsquare 0 110000 690000 0.2\ninstant_ms 100\n")
    rows = read_sources(times=5)["rows"]
    assert {round(row["power_mw"], -4) for row in rows} == {400_000}
    assert {round(row["power_instant_mw"], -4) for row in rows} == {110_000, 690_000}


def test_slow_facts_are_read_once_a_second(gpus, read_sources):
    gpus("gpus 1\n")
    rows = read_sources(times=5)["rows"]
    assert "temperature_c" in rows[0]
    assert not any("temperature_c" in row for row in rows[1:])


def test_power_without_support_is_missing_and_the_rest_is_there(gpus, read_sources):
    gpus("gpus 1\nunsupported 0 mean\nunsupported 0 instant\nunsupported 0 power_call\n")
    found = read_sources()
    row = found["rows"][0]
    assert "power_mw" not in row
    assert "power_instant_mw" not in row
    assert row["temperature_c"] == 60
    assert (found["devices"][0]["counter"], found["devices"][0]["power_column"]) == (True, None)


@pytest.mark.parametrize("missing", ["temperature", "utilisation", "clock", "limit"])
def test_each_fact_fails_alone(gpus, read_sources, missing):
    gpus(f"gpus 1\nunsupported 0 {missing}\n")
    row = read_sources()["rows"][0]
    columns = {
        "temperature": "temperature_c",
        "utilisation": "utilisation_pct",
        "clock": "clock_mhz",
        "limit": "power_limit_mw",
    }
    assert columns[missing] not in row
    assert {column for key, column in columns.items() if key != missing} <= set(row)
    assert row["power_mw"] > 0


def test_a_card_without_a_counter_is_told_of_once_and_its_power_is_integrated(gpus, read_sources):
    gpus("gpus 1\nunsupported 0 energy\nunsupported 0 energy_call\n")
    found = read_sources(times=5)
    assert codes(found).count("no_counter") == 1
    assert "NVIDIA H200" in found["notes"][0]["text"]
    assert not found["devices"][0]["counter"]
    assert "integrated" in found["devices"][0]["reading"]


def test_a_driver_without_fields_is_read_by_the_older_calls(gpus, read_sources):
    gpus("gpus 1\nconstant 0 250000\nunsupported 0 fields\n")
    found = read_sources()
    assert found["rows"][0]["power_mw"] == pytest.approx(250_000, abs=2)
    assert found["rows"][0]["energy_mj"] > 0
    assert "nvmlDeviceGetPowerUsage" in found["devices"][0]["reading"]


def test_a_card_that_tells_neither_energy_nor_power_is_left_out_with_its_name(gpus, read_sources):
    gpus("gpus 1\n" + "".join(f"unsupported 0 {what}\n" for what in ("fields", "energy_call", "power_call")))
    found = read_sources()
    assert (found["devices"], found["mark"], codes(found)) == ([], None, ["no_power_reading"])
    assert found["notes"][0]["text"].startswith("NVIDIA H200")


def test_the_counter_of_a_grace_hopper_module_is_not_taken_for_the_gpu(gpus, read_sources):
    gpus("gpus 1\nname 0 NVIDIA GH200 480GB\n")
    device = read_sources()["devices"][0]
    assert (device["counter"], device["power_column"]) == (False, "power_mw")


def test_only_the_visible_gpu_of_eight_is_measured(gpus, read_sources, monkeypatch):
    gpus("gpus 8\n" + "".join(f"constant {i} {100_000 if i == 3 else 500_000}\n" for i in range(8)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    found = read_sources()
    assert sum(row["power_mw"] for row in found["rows"]) == pytest.approx(100_000, abs=2)
    assert "7 of 8" in next(note["text"] for note in found["notes"] if note["code"] == "bystanders")


def test_a_uuid_prefix_names_a_gpu(gpus, read_sources, monkeypatch):
    gpus("gpus 2\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-00000001")
    assert [device["id"] for device in read_sources()["devices"]] == ["GPU-00000001-0000-0000-0000-000000000000"]


def test_an_index_follows_the_pci_bus(gpus, read_sources, monkeypatch):
    gpus("gpus 2\nbus 0 9\nbus 1 4\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert read_sources()["devices"][0]["id"].startswith("GPU-00000001")


def test_a_mig_instance_is_measured_as_its_board_and_marked_shared(gpus, read_sources, monkeypatch):
    gpus("gpus 2\nmig 1 MIG-1f2a\nconstant 1 300000\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1f2a")
    found = read_sources()
    assert [row["power_mw"] for row in found["rows"]] == [pytest.approx(300_000, abs=2)]
    assert found["devices"][0]["shared"]
    assert "board_shared" in codes(found)


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        (4, "nvml_no_permission", "/dev/nvidia"),
        (9, "nvml_no_driver", "modprobe"),
        (18, "nvml_driver_mismatch", "reboot"),
        (999, "nvml_error", "nvidia-smi"),
    ],
)
def test_a_driver_that_does_not_start_is_a_note_that_says_what_to_do(gpus, read_sources, status, code, advice):
    gpus(f"init {status}\n")
    found = read_sources()
    assert (found["devices"], codes(found)) == ([], [code])
    assert advice in found["notes"][0]["text"]


def test_no_library_is_a_note_that_says_what_to_do(read_sources, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    found = read_sources()
    if found["devices"]:
        pytest.skip("this machine has NVIDIA GPUs")
    assert "nvidia" in found["notes"][0]["text"].lower()
    assert found["source"] == "none"


def test_no_gpu_under_a_driver_is_a_note(gpus, read_sources):
    gpus("gpus 0\n")
    assert codes(read_sources()) == ["nvml_no_gpu"]


def test_a_gpu_that_was_lost_before_the_start_does_not_hide_the_others(gpus, read_sources):
    gpus("gpus 2\nlost 0 0\n")
    found = read_sources()
    assert codes(found)[0] == "gpu_unusable"
    assert [device["id"] for device in found["devices"]] == ["GPU-00000001-0000-0000-0000-000000000000"]


def test_auto_takes_the_gpus_and_the_host(gpus, read_sources):
    gpus("gpus 1\n")
    found = read_sources("auto", times=3)
    assert {row["layer"] for row in found["rows"]} >= {"accelerator", "cpu"}
    assert found["source"].startswith("nvml+")
