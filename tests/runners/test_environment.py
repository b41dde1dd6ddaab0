import json
import os
import platform

import pytest

from runners.environment import _cpu_units, environment


def test_it_tells_the_facts_of_this_host_in_json():
    facts = environment()
    assert set(facts) == {
        "host", "os", "kernel", "cpu", "cpu_count", "cpu_units", "memory_gb", "python", "accelerators", "driver"
    }  # fmt: skip
    assert facts["kernel"] == platform.release()
    assert facts["cpu_count"] == os.cpu_count()
    assert facts["memory_gb"] > 0.1
    assert json.loads(json.dumps(facts)) == facts


def test_no_environment_variable_gets_into_it(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-do-not-tell")
    assert "sk-do-not-tell" not in json.dumps(environment())


@pytest.mark.parametrize(
    ("text", "units"),
    [
        (
            "model name : X\nflags\t\t: fpu sse avx avx2 avx512_vnni amx_tile amx_int8\n",
            "avx avx2 avx512_vnni amx_tile amx_int8",
        ),
        ("Features : fp asimd sve bf16 i8mm\n", "asimd sve bf16 i8mm"),
        ("flags : fpu\n", None),
        ("", None),
    ],
)
def test_the_units_of_a_cpu_are_told_from_what_else_it_can(tmp_path, text, units):
    (tmp_path / "cpuinfo").write_text(text)
    assert _cpu_units(tmp_path / "cpuinfo") == units


def test_a_host_that_tells_nothing_of_its_cpu_has_unknown_units(tmp_path):
    assert _cpu_units(tmp_path / "missing") is None
