"""A small model and a large one behind a router: which of them answers, and why."""

import json
import subprocess
import sys
from typing import Any

import pytest

from runners.__main__ import main
from runners.router import classifier
from runners.router.confidence import mean_logprob
from tests.runners.router.asking import ROOT, ask, dead, metrics
from tests.services.misbehaving import Script, Wire, content, json_body


def says(word: str, *logprobs: float) -> Script:
    """Streams, or answers whole, as it is asked to."""

    def script(wire: Wire) -> None:
        tokens = {"content": [{"token": "t", "logprob": value} for value in logprobs]}
        logged: dict[str, Any] = {"logprobs": tokens} if wire.request.get("logprobs") and logprobs else {}
        if not wire.request.get("stream"):
            json_body({"choices": [{"message": {"content": word}, **logged}]})(wire)
            return
        wire.head()
        first = content(word)
        first["choices"][0] |= logged  # type: ignore[index]
        wire.event(first)
        wire.finish()

    return script


def decided(url: str) -> dict[str, int]:
    lines = [line for line in metrics(url).splitlines() if line.startswith("router_decisions_total")]
    found = {line.split('decision="')[1].split('"')[0]: int(line.split()[-1]) for line in lines}
    return {word: count for word, count in found.items() if count}


def sent_on(url: str) -> str:
    return next(line.split()[-1] for line in metrics(url).splitlines() if line.startswith("router_sent_on_total"))


def test_rules_send_long_prompts_and_hard_words_to_the_large_model(servers, router) -> None:
    small, large = servers(says("small"), says("large"))
    url = router(small.url, large.url, policy="rules", max_words=5, hard_words=["prove", "derive"])
    assert "small" in ask(url, "one two three")
    assert "large" in ask(url, "one two three four five six")
    assert "large" in ask(url, "Prove it")
    assert decided(url) == {"short": 1, "long": 1, "hard_word": 1}
    assert sent_on(url) == "2"


def test_the_classifier_tells_easy_prompts_from_hard_ones(servers, router) -> None:
    small, large = servers(says("small"), says("large"))
    url = router(small.url, large.url, policy="classifier")
    assert "small" in ask(url, "What is the capital of Norway?")
    assert "large" in ask(url, "Prove that there are infinitely many primes and explain each step of the proof.")
    assert decided(url) == {"easy": 1, "hard": 1}


@pytest.mark.parametrize("stream", [True, False])
def test_a_sure_answer_is_kept_and_an_unsure_one_is_asked_of_the_large_model(servers, router, stream: bool) -> None:
    sure, unsure, large = servers(says("small", -0.1, -0.3), says("small", -0.1, -1.3), says("large"))
    first = router(sure.url, large.url, policy="confidence", min_logprob=-0.5)
    assert "small" in ask(first, stream=stream)
    assert (decided(first), sent_on(first), large.requests) == ({"sure": 1}, "0", [])
    second = router(unsure.url, large.url, policy="confidence", min_logprob=-0.5)
    answer = ask(second, stream=stream)
    assert "large" in answer
    assert "small" not in answer
    assert (decided(second), sent_on(second)) == ({"unsure": 1}, "1")
    assert unsure.requests[0]["logprobs"] is True
    assert "logprobs" not in large.requests[0]


def test_without_log_probabilities_or_without_the_small_model_the_large_one_answers(servers, router) -> None:
    silent, large = servers(says("small"), says("large"))
    assert "large" in ask(url := router(silent.url, large.url, policy="confidence"))
    assert decided(url) == {"unknown": 1}
    assert "large" in ask(url := router(dead(), large.url, policy="confidence"))
    assert decided(url) == {"small_failed": 1}


def test_the_small_model_never_stands_in_for_the_large_one(servers, router) -> None:
    (small,) = servers(says("small"))
    url = router(small.url, dead(), policy="rules", max_words=1)
    with pytest.raises(Exception, match="502"):
        ask(url, "two words")
    assert small.requests == []


def test_log_probabilities_are_read_in_each_form() -> None:
    chat = {"choices": [{"logprobs": {"content": [{"token": "a", "logprob": -1.0}, {"token": "b", "logprob": -3.0}]}}]}
    texts = {"choices": [{"logprobs": {"tokens": ["a", "b"], "token_logprobs": [-1.0, -2.0]}}]}
    events = b"".join(b"data: " + json.dumps(chat).encode() + b"\n\n" for _ in range(2)) + b"data: [DONE]\n\n"
    assert mean_logprob(json.dumps(chat).encode()) == -2
    assert mean_logprob(json.dumps(texts).encode()) == -1.5
    assert mean_logprob(events) == -2
    assert mean_logprob(b"data: [DONE]\n\n") is None
    assert mean_logprob(b'{"error": {"message": "no"}}') is None


def test_the_shipped_classifier_is_what_its_recipe_makes() -> None:
    kept = json.loads((ROOT / "runners/router/classifier.json").read_text())
    made = classifier.to_json()
    weights = [(kept["features"][name], made["features"][name]) for name in classifier.FEATURES]
    for one, other in weights:
        assert one == pytest.approx(other, abs=2e-6)
    assert kept["left_out_accuracy"] == made["left_out_accuracy"] > 0.9
    assert kept["made_from"] == made["made_from"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--option", "policy=rules", "--upstream", "http://127.0.0.1:1"], "give the small model first"),
        (["--option", "policy=fastest"], "is not one of a list: round-robin"),
        (["--upstream", "https://127.0.0.1:1"], "the router speaks plain HTTP"),
        ([], "give at least one"),
    ],
)
def test_what_cannot_be_routed_is_refused_with_the_fix(capsys, words: list[str], said: str) -> None:
    assert main(["router", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_command_serves_until_it_is_told_to_end(servers) -> None:
    small, large = servers(says("small"), says("large"))
    words = [
        "--upstream",
        small.url,
        "--upstream",
        large.url,
        "--option",
        "policy=rules",
        "--option",
        "hard_words=prove",
    ]
    command = [sys.executable, "-m", "runners", "router", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            url = json.loads(process.stdout.readline())["url"]
            assert "large" in ask(url, "Prove it")
        finally:
            process.terminate()
        assert process.wait(10) == 0
