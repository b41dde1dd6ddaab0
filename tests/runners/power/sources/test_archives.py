"""Power asked for when its time has passed: Prometheus, and logs of nvidia-smi."""

import time
from itertools import pairwise

import pytest

from runners.meters import Prometheus, SmiLog
from runners.power.devices import SourceError
from runners.power.energy import window_ledger
from runners.power.sources.prometheus import PrometheusSource
from runners.power.sources.smi_log import SmiLogSource
from tests.services import instruments
from tests.services.instruments import WATTS, serving, smi_log

S = 1_000_000_000
#: A run of yesterday on a clock of its own.
THEN_S = 1_764_448_500.0
OFFSET_NS = int((THEN_S - 100) * S)


def ns(seconds):
    """Seconds after THEN_S on the run's clock."""
    return (100 + seconds) * S


def codes(source):
    return [note.code for note in source.notes]


# Prometheus


def asked(script, start_s=-60, end_s=660, **options):
    options = {"query": "DCGM_FI_DEV_POWER_USAGE", "step_s": 5.0} | options
    with serving(script) as server:
        source = PrometheusSource(Prometheus(server.url, **options), OFFSET_NS)
        rows = source.between(ns(start_s), ns(end_s))
    return source, rows, server


def test_a_range_becomes_samples_on_the_clock_of_the_run(table, description):
    source, rows, server = asked(instruments.Prometheus(scrape_s=5))
    ledger = window_ledger(table(rows), ns(0), ns(600), description=description(*source.devices()))
    assert ledger["it_j"] == pytest.approx(600 * WATTS)
    assert ledger["narrow_j"] == ledger["it_j"]
    assert server.asked[0].path.startswith("/api/v1/query_range?query=DCGM_FI_DEV_POWER_USAGE&start=")
    assert [device.name for device in source.devices()] == ["NVIDIA H100"]


def test_points_that_the_server_repeats_between_scrapes_are_taken_once_when_they_were_scraped():
    source, rows, _ = asked(instruments.Prometheus(scrape_s=15), step_s=1.0)
    stamps = [row["sensor_t_us"] // 1_000_000 for row in rows]
    assert {b - a for a, b in pairwise(stamps)} == {15}
    assert source.devices()[0].update_ms == 15_000


def test_a_window_shorter_than_twenty_scrapes_has_no_number(table, description):
    source, rows, _ = asked(instruments.Prometheus(scrape_s=15))
    ledger = window_ledger(table(rows), ns(0), ns(120), description=description(*source.devices()))
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "window_too_short")


def test_a_gap_is_named_and_windows_over_it_have_no_number(table, description):
    gap = (THEN_S + 300, THEN_S + 360)
    source, rows, _ = asked(instruments.Prometheus(scrape_s=5, gaps=(gap,)))
    account = description(*source.devices())
    assert "prometheus_gaps" in codes(source)
    assert "65 s" in source.notes[0].text
    assert window_ledger(table(rows), ns(0), ns(600), description=account)["reasons"][0]["code"] == "sampling_gap"
    assert window_ledger(table(rows), ns(0), ns(250), description=account)["it_j"] == pytest.approx(250 * WATTS)


def test_a_long_range_is_asked_for_in_parts_that_the_server_takes():
    _, rows, server = asked(instruments.Prometheus(scrape_s=1), end_s=15_000, step_s=1.0)
    assert len(rows) >= 15_000
    assert len(server.asked) == 4  # two parts, each with its stamps


def test_the_unit_turns_numbers_into_milliwatts():
    _, rows, _ = asked(instruments.Prometheus(watts=250_000), unit="mW")
    assert {row["power_mw"] for row in rows} == {250_000}


def test_an_energy_counter_is_taken_as_one_where_the_unit_says_so(table, description):
    script = instruments.Prometheus(scrape_s=5)
    script.value = lambda t_s: (t_s - THEN_S + 1000) * WATTS * 1e3
    source, rows, _ = asked(script, unit="mJ")
    ledger = window_ledger(table(rows), ns(0), ns(600), description=description(*source.devices()))
    assert ledger["it_j"] == pytest.approx(600 * WATTS)
    assert ledger["layers"][0]["method"] == "counter"


def counting(t_s):
    return (t_s - THEN_S + 1000) * 1e6


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"value": lambda t_s: 250e6}, "Is it in another unit"),
        ({"value": lambda t_s: -5.0}, "Is it in another unit"),
        ({"value": counting}, "running energy counter"),
        ({"labels": {"__name__": "node_rapl_package_joules_total"}}, "running energy counter"),
        ({"gaps": ((0.0, 1e12),)}, "has no data from 2025-11-29 20:34:00 to 2025-11-29 20:46:00 UTC"),
    ],
)
def test_what_cannot_be_watts_or_is_not_there_is_refused_in_words(changes, words):
    script = instruments.Prometheus()
    for name, value in changes.items():
        setattr(script, name, value)
    with pytest.raises(SourceError, match=words):
        asked(script)


def test_the_servers_own_words_are_passed_on():
    error = {"status": "error", "errorType": "bad_data", "error": "1:5: parse error: unexpected character"}
    with pytest.raises(SourceError, match="parse error"):
        asked(lambda _: (400, {}, error))
    with pytest.raises(SourceError, match="not a Prometheus server"):
        asked(lambda _: (200, {}, "hello"))


def test_series_that_nothing_tells_apart_are_refused():
    def script(told):
        result = [{"metric": {"UUID": "GPU-1", "GPU_I_ID": str(i)}, "values": [[THEN_S, "1"]]} for i in range(2)]
        return 200, {}, {"status": "success", "data": {"resultType": "matrix", "result": result}}

    with pytest.raises(SourceError, match=r"max by \(UUID\) for MIG"):
        asked(script)


def test_without_recent_data_the_reason_is_a_note():
    with serving(instruments.Prometheus(gaps=((0.0, 1e12),))) as server:
        source = PrometheusSource(Prometheus(server.url, query="up"), time.time_ns() - time.monotonic_ns())
        assert (source.devices(), codes(source)) == ([], ["prometheus_no_data"])


# logs of nvidia-smi


def logged(path, zone="UTC"):
    source = SmiLogSource(SmiLog(str(path), zone), OFFSET_NS)
    return source, source.between(ns(-60), ns(660))


@pytest.mark.parametrize("unit", [True, False])
def test_a_log_is_integrated_with_units_or_without(tmp_path, table, description, unit):
    smi_log(tmp_path / "log", 120, unit, end_s=THEN_S + 60)
    source, rows = logged(tmp_path / "log")
    ledger = window_ledger(table(rows), ns(0), ns(40), description=description(*source.devices()))
    assert ledger["it_j"] == pytest.approx(40 * WATTS, rel=0.001)
    assert "A100" in ledger["layers"][0]["label"]


HEAD = "timestamp, index, power.draw [W]"
LINE = "2025/11/29 20:35:{:02d}.000, {}, {}"


def write(path, head, *lines):
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def test_four_cards_a_tick_are_four_devices(tmp_path, table, description):
    lines = [
        f"2025/11/29 20:35:{second:02d}.{tenth}00, {gpu}, 300.00 W"
        for second in range(40)
        for tenth in range(10)
        for gpu in range(4)
    ]
    source, rows = logged(write(tmp_path / "log", HEAD, *lines))
    ledger = window_ledger(table(rows), ns(5), ns(15), description=description(*source.devices()))
    assert ledger["it_j"] == pytest.approx(12_000)


def test_cards_that_nothing_tells_apart_are_refused(tmp_path):
    lines = [f"2025/11/29 20:35:{second:02d}.000, 300 W" for second in range(9) for _ in range(4)]
    with pytest.raises(SourceError, match="Add uuid"):
        logged(write(tmp_path / "log", "timestamp, power.draw [W]", *lines))


def test_local_times_are_of_the_stated_zone(tmp_path):
    smi_log(tmp_path / "log", 60, end_s=THEN_S + 3600)
    _, rows = logged(tmp_path / "log", "Europe/Berlin")
    assert ns(-61) < rows[0]["t_ns"] < rows[-1]["t_ns"] < ns(1)
    with pytest.raises(
        SourceError, match=r"covers 2025-11-29 21:34:\d\d to 2025-11-29 21:34:59 UTC.*Is the zone right"
    ):
        logged(tmp_path / "log", "UTC")


def test_the_hour_that_comes_twice_goes_on_when_clocks_go_back(tmp_path):
    lines = ["2025/10/26 02:59:59.000, 0, 300", "2025/10/26 02:00:00.000, 0, 300", "2025/10/26 02:00:01.000, 0, 300"]
    source = SmiLogSource(SmiLog(str(write(tmp_path / "log", HEAD, *lines)), "Europe/Berlin"), 0)
    rows = source.between(0, 2**62)
    assert [b["t_ns"] - a["t_ns"] for a, b in pairwise(rows)] == [S, S]


def test_driver_535_has_two_powers_and_both_keep_their_own_column(tmp_path):
    head = "timestamp, uuid, power.draw.average [W], power.draw.instant [W]"
    source, rows = logged(write(tmp_path / "log", head, "2025/11/29 20:35:00.000, GPU-1, 400.00 W, 690.00 W"))
    assert (rows[0]["power_mw"], rows[0]["power_instant_mw"]) == (400_000, 690_000)
    (device,) = source.devices()
    assert (device.power_column, device.reading) == ("power_mw", "nvidia-smi power.draw.average, integrated")


def test_the_average_is_chosen_over_the_field_that_was_renamed(tmp_path):
    head = "timestamp, uuid, power.draw [W], power.draw.average [W]"
    _, rows = logged(write(tmp_path / "log", head, "2025/11/29 20:35:00.000, GPU-1, 1.00 W, 400.00 W"))
    assert rows[0]["power_mw"] == 400_000


def test_what_the_driver_does_not_tell_stays_missing(tmp_path):
    _, rows = logged(write(tmp_path / "log", HEAD, LINE.format(1, 0, "[N/A]"), LINE.format(2, 0, "[Not Supported]")))
    assert [row["power_mw"] for row in rows] == [None, None]


def test_fields_that_are_of_no_use_here_are_passed_over(tmp_path):
    head = "timestamp, index, pstate, memory.used [MiB], utilization.gpu [%], power.draw [W]"
    _, rows = logged(write(tmp_path / "log", head, "2025/11/29 20:35:00.000, 0, P0, 123 MiB, 97 %, 300 W"))
    assert (rows[0]["utilisation_pct"], rows[0]["power_mw"]) == (97, 300_000)


@pytest.mark.parametrize(
    ("head", "lines", "words"),
    [
        ("timestamp, index, power.draw.smoothed [W]", [LINE.format(1, 0, 300)], "column 'power.draw.smoothed'"),
        ("timestamp, index, watts", [LINE.format(1, 0, 300)], "column 'watts' is not known"),
        ("2025/11/29 20:35:00.000, 0, 300 W", [LINE.format(1, 0, 300)], "must be nvidia-smi's own header"),
        ("timestamp, index, temperature.gpu", [LINE.format(1, 0, 50)], "needs the columns timestamp and power.draw"),
        (HEAD, [LINE.format(1, 0, "300 mW")], "line 2: power.draw is '300 mW'"),
        (HEAD, [LINE.format(1, 0, "lots")], "line 2: power.draw is 'lots'"),
        (HEAD, ["29.11.2025 20:35, 0, 300"], "the time '29.11.2025 20:35' is not of the form"),
        (HEAD, ["Unable to determine the device handle: GPU is lost", LINE.format(1, 0, 300)], "line 2 has 1 fields"),
        ("", [], "the file is empty"),
    ],
)
def test_a_log_that_cannot_be_taken_as_it_stands_is_refused_by_line_and_field(tmp_path, head, lines, words):
    with pytest.raises(SourceError, match=words.replace("(", r"\(")):
        logged(write(tmp_path / "log", head, *lines))


def test_a_last_line_that_was_cut_off_is_left_out_and_said_so(tmp_path):
    source, rows = logged(write(tmp_path / "log", HEAD, LINE.format(1, 0, 300), "2025/11/29 20:35:0"))
    assert len(rows) == 1
    assert codes(source) == ["csv_cut_off"]


def test_logs_written_one_after_the_other_repeat_their_header(tmp_path):
    _, rows = logged(write(tmp_path / "log", HEAD, LINE.format(1, 0, 300), HEAD, LINE.format(2, 0, 300)))
    assert len(rows) == 2


def test_a_file_that_is_not_there_is_a_note(tmp_path):
    source = SmiLogSource(SmiLog(str(tmp_path / "none"), "UTC"), OFFSET_NS)
    assert (source.devices(), codes(source)) == ([], ["csv_unreadable"])


@pytest.mark.parametrize(
    "data",
    [None, {"resultType": "matrix", "result": [{"values": [[1, "x"]]}]}, {"resultType": "matrix", "result": [3]}],
)
def test_an_answer_in_another_form_is_refused(data):
    with pytest.raises(SourceError, match="prometheus: http"):
        asked(lambda _: (200, {}, {"status": "success", "data": data}))
