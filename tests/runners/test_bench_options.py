"""Options of the command line become the specification that they say."""

import argparse

import pytest

from runners.bench_cli import add_arguments, spec_of
from runners.sources import Agents, Conversations, Length, Prefixes, PromptFile, Shape, ShareGpt, Trace, TraceForm
from runners.spec import Arrivals, Goal, Search, SpecError


def spec(*options):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return spec_of(parser.parse_args(["--url", "http://h", "--out", "x", *options]))


def test_plain_numbers_mean_fixed_lengths_as_ever():
    workload = spec("--input-tokens", "64", "--output-tokens", "32").workload
    assert (workload.input_tokens, workload.output_tokens, workload.source.kind) == (64, 32, "synthetic")


def test_lengths_can_vary():
    workload = spec("--input-tokens", "lognormal:mean=512,sd=256,high=2048", "--output-tokens", "file:/l").workload
    assert workload.input_tokens == Length(Shape.LOGNORMAL, 512.0, 256.0, high=2048)
    assert workload.output_tokens == Length(Shape.FILE, file="/l")


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ("--workload prompts --workload-file p", PromptFile("p")),
        ("--workload sharegpt --workload-file p", ShareGpt("p")),
        ("--workload prefixes --prefix-groups 3 --prefix-tokens 20 --prefix-zipf 0", Prefixes(3, 20, 0.0)),
        ("--workload conversations --turns 3 --think 2 --turn-every 5 --think-cv 1 --system-tokens 9",
         Conversations(3, 2.0, 1.0, 5.0, 9)),
        ("--workload conversations --workload-file p", Conversations(file="p")),
        ("--workload agents --calls uniform:low=2,high=9 --result-tokens 50 --tool-time 1",
         Agents(Length(Shape.UNIFORM, low=2, high=9), 50, 1.0)),
        ("--workload agents --system-tokens 0", Agents(system_tokens=0)),
        ("--workload trace --workload-file p --trace-form azure", Trace("p", TraceForm.AZURE)),
    ],
)  # fmt: skip
def test_every_kind_of_workload_has_its_options(options, source):
    assert spec(*options.split()).workload.source == source


def test_phases_repeats_and_ramps_have_theirs():
    rate = ("--rate", "8", "--arrivals", "gamma", "--cv", "2", "--ramp-from", "1", "--duration", "60")
    load = spec(*rate, "--warmup", "5", "--cooldown", "3", "--repeats", "4", "--max-in-flight", "50").load
    assert (load.arrivals, load.cv, load.ramp_from, load.cooldown_s) == (Arrivals.GAMMA, 2, 1, 3)
    assert (load.repeats, load.max_in_flight, load.warmup_s, load.duration_s) == (4, 50, 5, 60)


def test_a_speed_replays_a_trace_to_its_end():
    load = spec("--workload", "trace", "--workload-file", "p", "--speed", "1,2").load
    assert (load.arrivals, load.levels, load.requests, load.duration_s) == (Arrivals.REPLAY, (1, 2), None, None)


def test_a_search_starts_where_it_is_told_and_asks_for_enough_requests_to_confirm():
    load = spec("--find", "slo", "--slo", "ttft_ms=500", "--concurrency", "1,64", "--slo-share", "0.9").load
    assert (load.levels, load.requests, load.search) == ((1, 64), 60, Search(Goal.SLO, 0.9))


def test_a_length_sweep_is_a_list_of_lengths():
    assert spec("--input-sweep", "128,1024").workload.input_sweep == (128, 1024)


def test_two_kinds_of_load_are_refused():
    with pytest.raises(SpecError, match="--rate and --speed"):
        spec("--rate", "1", "--speed", "1")


@pytest.mark.parametrize("options", ["--input-tokens bell:mean=3", "--input-sweep a", "--find fame", "--workload poem"])
def test_what_cannot_be_read_ends_with_usage(options, capsys):
    with pytest.raises(SystemExit) as end:
        spec(*options.split())
    assert end.value.code == 2
    assert options.split()[0] in capsys.readouterr().err
