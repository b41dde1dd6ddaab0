from collections import Counter
from pathlib import Path

import orjson
import pytest

from runners.quality.spec import QualitySpec
from runners.quality.tasks import Kind, TaskSet, built_in, parse, read
from runners.spec import Dialect, SpecError, Target


def test_the_set_that_comes_along_has_a_hundred_items_of_all_kinds() -> None:
    tasks = built_in().tasks
    assert len(tasks) == 100
    assert {task.kind for task in tasks} == set(Kind)
    assert {task.topic for task in tasks} == {"arithmetic", "knowledge", "copying", "reading"}


def test_its_letters_are_spread_so_that_always_the_same_one_is_no_good() -> None:
    letters = Counter(task.answers[0] for task in built_in().tasks if task.kind is Kind.CHOICE)
    assert max(letters.values()) - min(letters.values()) <= 1


def test_choices_are_sent_with_their_letters() -> None:
    task = next(task for task in built_in().tasks if task.id == "choice-1")
    assert "A. Berlin\nB. Paris\nC. Madrid\nD. Rome" in task.asked[-1].content


GOOD = {"id": "a", "kind": "exact", "prompt": "?", "answer": "yes"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"kind": "essay"}, "'essay' is not one of exact, choice, numeric"),
        ({"colour": "red"}, "no such field; known are"),
        ({"prompt": None}, 'give either "prompt" or "messages"'),
        ({"messages": [{"role": "user", "content": "?"}]}, 'give either "prompt" or "messages"'),
        ({"prompt": None, "messages": [{"role": "assistant", "content": "?"}]}, "must be a question of the user"),
        ({"answer": None}, 'give either "answer" or "answers"'),
        ({"answer": ""}, "a text that is not empty"),
        ({"kind": "numeric"}, "a finite number"),
        ({"kind": "numeric", "answer": True}, "is a number"),
        ({"kind": "numeric", "answer": 1, "tolerance": -1}, "tolerance must be 0 or more"),
        ({"kind": "choice", "answer": "A"}, "give 2 to 26 choices"),
        ({"kind": "choice", "answer": "C", "choices": ["x", "y"]}, "one of the letters A, B"),
        ({"choices": ["x", "y"]}, "choices belong to the kind choice only"),
        ({"normalise": ["spelling"]}, "'spelling' is not one of"),
        ({"output_tokens": 0}, "output_tokens must be between"),
        ({"id": ""}, "the id must have"),
    ],
)
def test_a_bad_line_is_named_with_what_to_put_right(change: dict[str, object], problem: str) -> None:
    bad = {name: value for name, value in (GOOD | change).items() if value is not None}
    lines = b"\n".join([orjson.dumps(GOOD | {"id": "first"}), b"", orjson.dumps(bad)])
    with pytest.raises(SpecError) as caught:
        parse(lines, "mine")
    assert str(caught.value).startswith("mine, line 3")
    assert problem in str(caught.value)


def test_ids_are_unique_within_a_set() -> None:
    line = orjson.dumps(GOOD)
    with pytest.raises(SpecError, match="line 2: the id 'a' stands in mine, line 1 already"):
        parse(line + b"\n" + line, "mine")


@pytest.mark.parametrize(
    ("data", "problem"), [(b"", "empty"), (b"{", "line 1: not JSON"), (b"[]", "not a JSON object")]
)
def test_what_is_no_task_set_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        parse(data, "mine")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.jsonl cannot be read"):
        read(str(tmp_path / "none.jsonl"))


def test_sets_that_ask_the_same_have_one_fingerprint() -> None:
    line = orjson.dumps(GOOD)
    other = orjson.dumps(GOOD | {"answer": "no"})
    assert parse(line, "one").sha256 == parse(line + b"\n\n", "two").sha256 != parse(other, "one").sha256


def test_a_specification_comes_back_from_json_as_it_went() -> None:
    asked = QualitySpec(Target("http://a"), TaskSet("mine", (GOOD,)), Target("http://b"), concurrency=2)
    assert QualitySpec.from_json(orjson.loads(orjson.dumps(asked.to_json()))) == asked


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"output_tokens": 0}, "output_tokens"),
        ({"target": Target("http://a", dialect=Dialect.OPENAI_EMBEDDINGS)}, "gives no text"),
        ({"reference": Target("ftp://b")}, "must start with http"),
        ({"version": 9}, "version"),
    ],
)
def test_what_cannot_be_asked_is_refused(change: dict[str, object], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        QualitySpec(**{"target": Target("http://a"), **change})  # type: ignore[arg-type]
