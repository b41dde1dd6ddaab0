import shlex

import pytest

from observatory.pages.commands import bench_command
from runners.spec import Arrivals, Load, RunSpec, Slo, SpecError, Target


def words(spec: RunSpec) -> list[str]:
    return shlex.split(bench_command(spec.to_json()).replace("\\\n", ""))


def test_the_command_names_all_that_was_asked() -> None:
    spec = RunSpec(
        target=Target("http://gpu-1:8000", "m", api_key_env="KEY"),
        load=Load(levels=(1, 4, 16), requests=100, warmup_s=5),
        slo=Slo(ttft_ms=500, tpot_ms=50),
    )
    found = words(spec)
    assert found[:4] == ["python", "-m", "runners", "bench"]
    options = dict(zip(found[4::2], found[5::2], strict=True))
    assert options["--concurrency"] == "1,4,16"
    assert options["--slo"] == "ttft_ms=500,tpot_ms=50"
    assert options["--api-key-env"] == "KEY"
    assert "--duration" not in options


def test_an_open_loop_names_its_rates_and_arrivals() -> None:
    load = Load(arrivals=Arrivals.POISSON, levels=(0.5, 2), duration_s=60)
    found = " ".join(words(RunSpec(target=Target("http://h"), load=load)))
    assert "--rate 0.5,2 --arrivals poisson --duration 60" in found


def test_a_hostile_model_name_stays_one_word_of_the_shell() -> None:
    name = "x'; rm -rf / #"
    spec = RunSpec(target=Target("http://h", name), load=Load(requests=1))
    assert words(spec)[7] == name


def test_a_specification_of_another_version_is_refused() -> None:
    with pytest.raises(SpecError):
        bench_command({"target": {"url": "http://h"}, "version": 99})
