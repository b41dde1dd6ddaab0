"""A router with real engines behind it: one recipe starts them all, and they end together."""

import json
import os
import re
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from runners.engines.launch import EngineError, launch
from runners.engines.packaged import MODEL_NAME
from runners.engines.recipe import Recipe

ONE = {"engine": "llama.cpp", "threads": 1, "options": {"n_parallel": 1, "n_ctx": 576}}
OTHER = {"engine": "llama.cpp", "threads": 1, "options": {"n_parallel": 1, "n_ctx": 832}}


def recipe(*upstreams: dict[str, Any], **options: Any) -> Recipe:
    return Recipe.from_json({"engine": "router", "options": {**options, "upstreams": list(upstreams)}})


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        return str(response.read().decode())


def ask(url: str, **fields: Any) -> str:
    messages = [{"role": "user", "content": "Say yes."}]
    body = json.dumps({"model": MODEL_NAME, "messages": messages, "max_tokens": 4, "ignore_eos": True, **fields})
    address = f"{url}/v1/chat/completions"
    request = urllib.request.Request(address, body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return str(response.read().decode())


def engines() -> list[int]:
    """Of llama.cpp, with the context of these recipes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"runners.engines.llamacpp" in words and b"guard" not in b" ".join(words[:3]):
            found += [int(path.parent.name)] if re.search(rb'"n_ctx": (576|832)', b" ".join(words)) else []
    return found


def per_engine(page: str, name: str) -> list[float]:
    return [float(value) for value in re.findall(rf'^{name}{{upstream="\d"}} (\S+)$', page, re.M)]


def test_replicas_start_answer_in_turn_are_counted_together_and_end_together() -> None:
    with launch(recipe(ONE, OTHER)) as engine:
        assert engine.model == MODEL_NAME
        assert len(engines()) == 2
        whole, streamed = ask(engine.url), ask(engine.url, stream=True)
        page = get(engine.metrics_url)
        facts = engine.facts()
    assert json.loads(whole)["usage"]["completion_tokens"] == 4
    assert streamed.rstrip().endswith("data: [DONE]")
    assert per_engine(page, "router_requests_total") == [1, 1]
    assert per_engine(page, "llamacpp:tokens_predicted_total") == [4, 4]
    assert facts["version"].startswith("xllamacpp 2")
    assert facts["recipe"]["options"]["upstreams"] == [ONE, OTHER]
    assert engines() == []


@pytest.mark.parametrize(("bound", "sent_on"), [(-50.0, 0), (0.0, 1)])
def test_a_real_answer_is_judged_by_its_log_probabilities(bound: float, sent_on: int) -> None:
    with launch(recipe(ONE, OTHER, policy="confidence", min_logprob=bound)) as engine:
        answer = ask(engine.url, stream=True)
        page = get(engine.metrics_url)
    assert answer.rstrip().endswith("data: [DONE]")
    assert f'router_sent_on_total{{policy="confidence"}} {sent_on}' in page
    assert per_engine(page, "router_requests_total") == [1, sent_on]


def test_the_end_of_one_engine_ends_all_and_is_told() -> None:
    with launch(recipe(ONE, OTHER)) as engine:
        os.kill(engines()[0], signal.SIGKILL)
        deadline = time.monotonic() + 15
        while engine.alive and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not engine.alive
        assert re.search(r"router: engine \d has ended", engine.log_tail())
    assert engines() == []


def test_an_engine_that_does_not_start_is_told_by_the_router() -> None:
    command = f"{sys.executable} {Path(__file__).parent / 'misbehaving.py'} {{port}} ends"
    with (
        pytest.raises(EngineError, match="no memory left on device 0"),
        launch(recipe(ONE, {"engine": "command", "command": command})),
    ):
        pass
    assert engines() == []
