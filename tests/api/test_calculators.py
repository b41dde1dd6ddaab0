"""Calculators over REST and on the command line: the same declaration, the same answers, the same refusals."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from observatory.api.root import api
from observatory.theory.registry import CALCULATORS
from tests.api.conftest import Caller

NAMES = [calculator.name for calculator in CALCULATORS]


def calc(*words: str, **options: Any) -> str:
    out = StringIO()
    call_command("calc", *words, stdout=out, **options)
    return out.getvalue()


def test_every_calculator_answers_its_defaults_and_says_what_it_took(as_user: Caller) -> None:
    listed = as_user.get("/calc").json()
    assert [item["name"] for item in listed] == NAMES
    for item in listed:
        answer = as_user.get(f"/calc/{item['name']}")
        assert answer.status_code == 200, item["name"]
        assert answer.json()["inputs"] == {entry["name"]: entry["default"] for entry in item["inputs"]}


def test_an_answer_is_as_the_command_line_gives_it(as_user: Caller) -> None:
    answer = as_user.get("/calc/speculative?acceptance=1&drafted=5").json()
    assert answer["outputs"]["tokens_per_pass"] == 6
    assert answer == json.loads(calc("speculative", "acceptance=1", "drafted=5", json=True))


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("acceptance=1.5", "acceptance", "Give a number from 0 to 1."),
        ("acceptance=nan", "acceptance", "not a number"),
        ("acceptance=", "acceptance", "Give a number from 0 to 1."),
        ("drafted=1e999", "drafted", "too large"),
        ("drafted=2.5", "drafted", "Give a whole number from 0 to 32 tok."),
        ("acceptence=1", "acceptence", "known are acceptance, batch"),
        ("drafted=1&drafted=2", "drafted", "Give it once."),
    ],
)
def test_a_bad_input_is_refused_with_its_name_and_what_to_write(
    as_user: Caller, query: str, field: str, words: str
) -> None:
    answer = as_user.get(f"/calc/speculative?{query}")
    assert answer.status_code == 422
    (fault,) = answer.json()["fields"]
    assert fault["field"] == field
    assert words in fault["problem"]


def test_all_bad_inputs_are_named_at_once(as_user: Caller) -> None:
    answer = as_user.get("/calc/speculative?acceptance=x&drafted=y")
    assert [fault["field"] for fault in answer.json()["fields"]] == ["acceptance", "drafted"]


def test_each_input_is_described_with_its_bounds() -> None:
    operation = api.get_openapi_schema(path_prefix="")["paths"]["/calc/speculative"]["get"]
    described = {parameter["name"]: parameter for parameter in operation["parameters"]}
    assert described["acceptance"]["schema"] == {"type": "number", "default": 0.8, "minimum": 0, "maximum": 1}
    assert described["drafted"]["schema"]["type"] == "integer"
    assert "[tok]" in described["drafted"]["description"]


def test_the_command_lists_every_calculator() -> None:
    assert [line.split()[0] for line in calc().splitlines()] == NAMES


def test_the_command_prints_results_and_tables() -> None:
    told = calc("speculative", "drafted=5")
    assert "Tokens per pass: 3.69 tok" in told
    assert told.rstrip().splitlines()[-1].split() == ["0.90", "5", "4.69", "3.75"]


@pytest.mark.parametrize("name", NAMES)
def test_the_command_explains_every_input_of(name: str) -> None:
    told = calc(name, help_inputs=True)
    calculator = next(item for item in CALCULATORS if item.name == name)
    assert all(f"{entry.name}=" in told for entry in calculator.entries)
    assert calculator.source in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["speculativ"], "`manage.py calc` lists them"),
        (["speculative", "drafted"], "Write key=value"),
        (["speculative", "drafted=1", "drafted=2"], "given twice"),
        (["speculative", "drafted=-1"], "drafted: -1 is out of bounds. Give a whole number from 0 to 32 tok."),
    ],
)
def test_the_command_says_what_to_write(words: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said.replace("(", r"\(")):
        calc(*words)
