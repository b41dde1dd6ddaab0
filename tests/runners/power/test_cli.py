import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.power.cli import add_arguments, run

ROOT = Path(__file__).parents[3]
SCRIPT = """
import argparse, sys
from runners.power.cli import add_arguments, run
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
