import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.power.cli import add_arguments, run
from runners.power.sources import METERS, SOURCES
from tests.services.instruments import WATTS, Prometheus, serving, shelly

ROOT = Path(__file__).parents[3]
SCRIPT = """
import argparse, sys
from runners.power.cli import add_arguments, run
from runners.power.sources import METERS, SOURCES
from tests.services.instruments import WATTS, Prometheus, serving, shelly
parser = argparse.ArgumentParser()
add_arguments(parser)
sys.exit(run(parser.parse_args()))
"""


def power(*arguments):
    """Runs the subcommand in a process of its own: exit status and output."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_the_table_names_device_watts_mark_update_and_instrument(gpus):
    gpus("gpus 1\nconstant 0 250000\n")
    status, text = power()
    head, card, cpu, *_ = text.splitlines()
    assert status == 0
    assert head.split() == ["layer", "device", "W", "now", "mark", "update", "instrument"]
    for part in ("accelerator", "NVIDIA H200", "250.0", "measured", "100 ms", "NVML energy counter"):
        assert part in card
    assert cpu.startswith("cpu")


def test_json_holds_the_same_with_numbers(gpus):
    gpus("gpus 1\nconstant 0 250000\n")
    status, text = power("--json", "--source", "nvml")
    device = json.loads(text)["devices"][0]
    assert (status, device["power_w"], device["update_ms"]) == (0, pytest.approx(250, abs=0.01), 100)


def test_what_is_missing_is_explained_and_the_status_says_that_nothing_was_found(gpus):
    gpus("init 18\n")
    status, text = power("--source", "nvml")
    assert status == 3
    assert "Nothing to measure power with" in text
    assert "reboot" in text


def test_the_modelled_host_shows_its_watts(capsys):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert run(parser.parse_args(["--source", "estimate", "--cpu-idle-w", "40", "--cpu-max-w", "40"])) == 0
    out = capsys.readouterr().out
    assert "40.0" in out
    assert "modelled" in out
    assert f"{os.cpu_count()} logical CPUs" in out


def test_impossible_watts_are_a_usage_error(capsys):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert run(parser.parse_args(["--source", "estimate", "--cpu-idle-w", "50", "--cpu-max-w", "4"])) == 2
    assert "cpu_idle_w" in capsys.readouterr().err


def test_every_other_instrument_is_listed_with_what_it_serves_or_what_to_do():
    status, text = power()
    lines = {line.split()[0]: line for line in text.partition("Other instruments:\n")[2].splitlines()}
    assert status == 0
    assert set(lines) == {*SOURCES, *METERS} - {"estimate"}
    assert "ROCm" in lines["amd"]
    assert "--source 'dcgm:http://" in lines["dcgm"]


def test_an_instrument_that_auto_did_not_take_says_how_to_use_it(gpus):
    gpus("gpus 1\nconstant 0 250000\n")
    _, text = power("--json")
    named = {row["name"]: row for row in json.loads(text)["others"]}
    assert "nvml" not in named
    assert named["rapl"]["serves"] == []


def test_a_meter_elsewhere_shows_its_watts():
    with serving(shelly) as server:
        status, text = power("--json", "--source", f"meter:{server.url},pointer=/apower")
    (device,) = json.loads(text)["devices"]
    assert (status, device["power_w"], device["layer"]) == (0, WATTS, "host")
    assert "others" not in json.loads(text)


def test_prometheus_shows_its_newest_watts():
    with serving(Prometheus(scrape_s=5)) as server:
        status, text = power("--json", "--source", f"prometheus:{server.url},query=p")
    (device,) = json.loads(text)["devices"]
    assert (status, device["power_w"], device["update_ms"]) == (0, WATTS, 5000)


def test_a_source_that_cannot_be_asked_is_a_usage_error_in_words():
    done = subprocess.run(
        [sys.executable, "-m", "runners", "power", "--source", "meter:http://h"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "a JSON pointer" in done.stderr
