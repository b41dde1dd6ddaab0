import argparse
import shlex
from dataclasses import replace

import pytest

from observatory.pages.commands import bench_command
from runners import bench_cli
from runners.meters import Dcgm
from runners.powers import Pool
from runners.sources import Agents, Conversations, Length, Prefixes, PromptFile, Shape, ShareGpt, Trace, TraceForm
from runners.spec import (
    Account,
    Arrivals,
    Dialect,
    Goal,
    Images,
    Load,
    ModelShare,
    Power,
    RunSpec,
    Search,
    ServerMetrics,
    Shard,
    Slo,
    SpecError,
    Target,
    Timeouts,
    Workload,
)


def asked_by(command: str) -> RunSpec:
    """What the command line itself makes of it."""
    words = shlex.split(command.replace("\\\n", ""))
    assert words[:4] == ["python", "-m", "runners", "bench"]
    parser = argparse.ArgumentParser()
    bench_cli.add_arguments(parser)
    return bench_cli.spec_of(parser.parse_args(words[4:]))


GIVEN = "given on the command line"
PLAIN = RunSpec(target=Target("http://h"), load=Load(requests=1))


@pytest.mark.parametrize(
    "spec",
    [
        PLAIN,
        replace(PLAIN, target=Target("http://h", "x'; rm -rf / #", Dialect.OPENAI_COMPLETIONS, "KEY")),
        replace(PLAIN, load=Load(levels=(1, 4, 16), requests=100, warmup_s=5)),
        replace(PLAIN, load=Load(Arrivals.POISSON, (0.1 + 0.2, 2), None, 60.5)),
        replace(PLAIN, load=Load(Arrivals.CONSTANT, (1234.0625,), 10, 3600)),
        replace(PLAIN, slo=Slo(ttft_ms=500, tpot_ms=49.5)),
        replace(PLAIN, load=Load(levels=(1.0, 8.0), requests=60, search=Search(Goal.SATURATION, max_stages=4))),
        replace(PLAIN, load=Load(requests=60, search=Search(Goal.SLO, 0.9)), slo=Slo(ttft_ms=500)),
        replace(PLAIN, workload=Workload(source=Conversations(Length(Shape.UNIFORM, low=2, high=4), think_cv=1.0))),
        replace(PLAIN, workload=Workload(source=Conversations(file="chats.json", system_tokens=9, every_s=0.5))),
        replace(PLAIN, workload=Workload(source=Agents(3, 64, 0.25, 0))),
        replace(PLAIN, workload=Workload(source=Prefixes(4, 100, 0.5))),
        replace(PLAIN, workload=Workload(source=PromptFile("my prompts.jsonl"))),
        replace(PLAIN, workload=Workload(source=ShareGpt("chats.json"))),
        replace(
            PLAIN,
            workload=Workload(source=Trace("t.csv", TraceForm.AZURE)),
            load=Load(Arrivals.REPLAY, (1.0, 2.5), requests=None),
        ),
        replace(PLAIN, workload=Workload(4096, 1, 7, ignore_eos=False, tokenizer="/a b/tokenizer.json")),
        replace(PLAIN, workload=Workload(stream=False, choices=3, images=Images(2, 64, 32))),
        replace(PLAIN, workload=Workload(models=(ModelShare("org/base", 3), ModelShare("a=b", 0.5)))),
        replace(
            PLAIN,
            target=Target(
                "https://h",
                dialect=Dialect.ANTHROPIC_MESSAGES,
                api_key_env="KEY",
                api_key_header="Authorization: Token",
                extra_body={"top_k": 1, "stop": ["a'b", "ü"], "nested": {"x": None}},
                extra_headers={"X-Team": "a=b c"},
                ca_file="/ca.pem",
                client_cert_file="/c.pem",
                client_key_file="/k.pem",
                proxy="http://proxy:3128",
            ),
        ),
        replace(
            PLAIN, power=Power("nvml", 20, observer=True, start_below_c=45.5, start_steady_c_per_min=1, start_wait_s=60)
        ),
        replace(PLAIN, power=Power("none", 0), timeouts=Timeouts(1, 2, 3, 4)),
        replace(PLAIN, power=Power("nvml+rapl", cpu_max_w=20, meters=(Dcgm("http://gpu-1:9400/metrics"),))),
        replace(PLAIN, power=Power(pools=(Pool("prefill", ("0", "GPU-1a2b")), Pool("decode")))),
        replace(PLAIN, power=Power(shared=True), account=Account(None, "", 1.2, GIVEN, None, 1.1, 1.36)),
        replace(PLAIN, account=Account(2.4, "given on the command line", 1.09, "given on the command line")),
        replace(PLAIN, load=Load(Arrivals.GAMMA, (9.0,), None, 60.0, 5.0, 2.0, cv=2.0, ramp_from=1.0, repeats=3)),
        replace(PLAIN, load=Load(requests=1, drain_s=5, run_s=600.5)),
        replace(PLAIN, load=Load(requests=60, search=Search(Goal.SATURATION, tolerance=0.2))),
        replace(PLAIN, workload=Workload(source=Trace("t.jsonl", TraceForm.MOONCAKE, block_tokens=16))),
        replace(PLAIN, load=Load(requests=5, max_in_flight=9, calibrate_s=0.0)),
        replace(PLAIN, workload=Workload(Length(Shape.NORMAL, 64.0, 9.0, 2, 99), 5, input_sweep=(16, 32))),
        replace(PLAIN, shard=Shard(count=4)),
        replace(PLAIN, server=ServerMetrics(scrape=False, url="http://gpu-1:9090/metrics")),
        replace(PLAIN, account=Account(2.4, GIVEN, 1.09, GIVEN)),
    ],
)
def test_the_command_asks_exactly_the_same(spec: RunSpec) -> None:
    assert asked_by(bench_command(spec.to_json())) == spec


def test_the_salt_is_not_repeated() -> None:
    assert asked_by(bench_command(replace(PLAIN, salt="s3").to_json())).salt == ""


@pytest.mark.parametrize(
    "spec",
    [
        replace(PLAIN, workload=Workload(temperature=0.7)),
        replace(PLAIN, workload=Workload(models=(ModelShare("a,b"),))),
        replace(PLAIN, target=Target("http://h", extra_body={"a=b": 1})),
    ],
)
def test_what_has_no_option_goes_by_file(spec: RunSpec) -> None:
    assert "--spec spec.json" in bench_command(spec.to_json())


def test_a_specification_of_another_version_is_refused() -> None:
    with pytest.raises(SpecError):
        bench_command({"target": {"url": "http://h"}, "version": 99})
