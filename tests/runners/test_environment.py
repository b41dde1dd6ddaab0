import json
import os
import platform

from runners.environment import environment


def test_it_tells_the_facts_of_this_host_in_json():
    facts = environment()
    assert set(facts) == {
        "host", "os", "kernel", "cpu", "cpu_count", "memory_gb", "python", "accelerators", "driver"
    }  # fmt: skip
    assert facts["kernel"] == platform.release()
    assert facts["cpu_count"] == os.cpu_count()
    assert facts["memory_gb"] > 0.1
    assert json.loads(json.dumps(facts)) == facts


def test_no_environment_variable_gets_into_it(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-do-not-tell")
    assert "sk-do-not-tell" not in json.dumps(environment())
