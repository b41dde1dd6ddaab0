"""Metrics pages of dcgm-exporter and of AMD's exporter, over HTTP."""

import time

import pytest

from runners.meters import AmdExporter, Dcgm
from runners.power.energy import window_ledger
from runners.power.polling import Cadence
from runners.power.sources.amd_exporter import AmdExporterSource
from runners.power.sources.dcgm import DcgmSource
from tests.services.instruments import page, serving

S = 1_000_000_000


def labels(gpu, host="gpu-1", **more):
    named = {"gpu": gpu, "UUID": f"GPU-{gpu}{gpu}{gpu}{gpu}", "modelName": "NVIDIA A100", "Hostname": host, **more}
    return "{" + ",".join(f'{name}="{value}"' for name, value in named.items()) + "}"


def power(watts, *of):
    return "".join(f"DCGM_FI_DEV_POWER_USAGE{one} {watts}\n" for one in of)


def opened(text, **options):
    with serving(lambda _: page(text)) as server:
        source = DcgmSource(Dcgm(server.url + "/metrics", **options))
        rows = source.read()
        source.close()
    return source, rows


def codes(source):
    return [note.code for note in source.notes]


def test_a_board_counts_once_however_many_mig_instances_repeat_it():
    parts = [labels(0, GPU_I_PROFILE="1g.10gb", GPU_I_ID=number) for number in range(7, 14)]
    source, rows = opened(power(300, *parts))
    assert [row["power_mw"] for row in rows] == [300_000]
    assert source.devices()[0].shared


def test_a_whole_board_is_not_shared():
    source, _ = opened(power(300, labels(0)))
    assert not source.devices()[0].shared


def test_gpus_are_chosen_by_host_index_and_uuid():
    text = power(100, *(labels(gpu, host) for host in ("gpu-1",) for gpu in range(8)))
    assert [row["device"] for row in opened(text, gpus="3")[1]] == ["GPU-3333"]
    assert [row["device"] for row in opened(text, gpus="1+gpu-55")[1]] == ["GPU-1111", "GPU-5555"]
    other, rows = opened(text, host="gpu-2")
    assert (rows, codes(other)) == ([], ["dcgm_missing"])
    assert "host=gpu-2" in other.notes[0].text


def test_units_are_those_that_dcgm_states():
    text = power(99.5, labels(0)) + f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{labels(0)} 1000\n"
    (row,) = opened(text + f"DCGM_FI_DEV_GPU_TEMP{labels(0)} 60\n")[1]
    assert (row["power_mw"], row["energy_mj"], row["temperature_c"]) == (99_500, 1000, 60)


def test_a_field_that_is_absent_stays_absent():
    source, (row,) = opened(
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{labels(0)} 5\nDCGM_FI_DEV_POWER_USAGE{labels(0)} NaN\n"
    )
    assert "power_mw" not in row
    assert source.devices()[0].power_column is None


def test_the_cpu_field_of_dcgm_is_one_rail_and_is_not_counted():
    source, rows = opened(power(300, labels(0)) + 'DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT{cpu="0"} 53\n')
    assert [row["layer"] for row in rows] == ["accelerator"]
    assert "dcgm_cpu_rail" in codes(source)


def test_the_counter_of_a_grace_hopper_holds_the_module_and_is_not_used():
    text = power(300, labels(0, modelName="NVIDIA GH200 480GB"))
    source, _ = opened(text + f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{labels(0, modelName='NVIDIA GH200 480GB')} 5\n")
    assert not source.devices()[0].counter


def test_the_stamp_of_the_page_is_kept():
    (row,) = opened(f"DCGM_FI_DEV_POWER_USAGE{labels(0)} 300 1764448522000\n")[1]
    assert row["sensor_t_us"] == 1_764_448_522_000_000


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (lambda _: page("", 404), "answers 404"),
        (lambda _: page("", 401), "refuses access (401): name variables"),
        (lambda _: page("DCGM_FI_DEV_POWER_USAGE{gpu=0} 1\n"), "labels that cannot be read"),
        (lambda _: page("up 1\n"), "-c 1000"),
    ],
)
def test_a_page_that_is_of_no_use_is_a_note_in_words(script, words):
    with serving(script) as server:
        source = DcgmSource(Dcgm(server.url + "/metrics"))
    assert source.devices() == []
    assert words in source.notes[-1].text


def test_a_page_that_stops_to_answer_ends_the_rows_and_repeats_nothing():
    with serving(lambda _: page(power(300, labels(0)))) as server:
        source = DcgmSource(Dcgm(server.url + "/metrics"))
        assert len(source.read()) == 1
        server.script = lambda _: page("", 503)
        time.sleep(1.3)
        assert source.read() == []
        assert "answers 503" in source.notes[-1].text
    source.close()


def test_a_gpu_that_leaves_the_page_has_no_more_rows_and_is_named():
    with serving(lambda _: page(power(300, labels(0), labels(1)))) as server:
        source = DcgmSource(Dcgm(server.url + "/metrics"))
        server.script = lambda _: page(power(300, labels(0)))
        time.sleep(0.1)
        source.read()
        time.sleep(1.3)
        assert {row["device"] for row in source.read()} == {"GPU-0000"}
        assert "gpu_gone" in codes(source)
    source.close()


def test_the_update_is_the_exporters_default_until_its_page_shows_another():
    source, _ = opened(power(300, labels(0)))
    assert source.devices()[0].update_ms == 30_000
    cadence = Cadence(30_000)
    for tick in range(12):
        cadence.see(tick * S, tick // 2)
    assert (cadence.known, cadence.update_ms) == (True, 2000)


def test_a_window_of_fewer_than_twenty_updates_of_the_page_has_no_number(table, description):
    source, (row,) = opened(power(300, labels(0)))
    rows = [{**row, "t_ns": i * S} for i in range(120)]
    ledger = window_ledger(table(rows), 10 * S, 100 * S, description=description(*source.devices()))
    assert ledger["reasons"][0]["code"] == "window_too_short"


def test_an_amd_board_counts_once_over_its_partitions_and_in_microjoules():
    def line(metric, part, value):
        return f'{metric}{{gpu_id="0",serial_number="SN1",card_model="MI300X",gpu_partition_id="{part}"}} {value}\n'

    text = "".join(line("gpu_package_power", part, 750) for part in range(8))
    with serving(lambda _: page(text + line("gpu_energy_consumed", 0, "1.4e17"))) as server:
        source = AmdExporterSource(AmdExporter(server.url + "/metrics"))
        (row,) = source.read()
        source.close()
    assert (row["power_mw"], row["energy_mj"]) == (750_000, 1.4e14)
    assert [device.name for device in source.devices()] == ["MI300X"]


def test_the_older_names_and_the_prefix_of_the_amd_exporter_are_known():
    text = 'amd_gpu_average_package_power{gpu_id="2",hostname="h"} 410\n'
    with serving(lambda _: page(text)) as server:
        source = AmdExporterSource(AmdExporter(server.url + "/metrics"))
        (row,) = source.read()
        source.close()
    assert (row["device"], row["power_mw"]) == ("h/2", 410_000)
