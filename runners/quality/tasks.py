"""Task sets: questions with known answers, one JSON object a line. docs/quality.md lists the fields."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

import orjson

from runners.load.workloads.base import Message
from runners.load.workloads.files import messages_of
from runners.strict_json import SpecError, build

#: The set that comes with the program.
BUILT_IN = "basic"
MAX_ITEMS, MAX_BYTES = 20_000, 16_000_000
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LONGEST_ID = 200


class Kind(StrEnum):
    EXACT = "exact"
    CHOICE = "choice"
    NUMERIC = "numeric"


class Match(StrEnum):
    """Where an exact answer must stand: be the whole text, open it, or occur in it as whole words."""

    WHOLE = "whole"
    START = "start"
    ANYWHERE = "anywhere"


class Step(StrEnum):
    """What is evened out in both texts before they are compared, in the order given."""

    CASE = "case"
    PUNCTUATION = "punctuation"
    ARTICLES = "articles"
    WHITESPACE = "whitespace"
    FIRST_LINE = "first_line"


class Take(StrEnum):
    """Which number of an answer counts."""

    FIRST = "first"
    LAST = "last"


USUAL_STEPS = (Step.CASE, Step.PUNCTUATION, Step.WHITESPACE)


@dataclass(frozen=True)
class Task:
    """One question. ``answers``: accepted texts, a letter, or a number, by ``kind``. ``topic`` groups questions.

    exact      ``match`` and ``normalise`` say how texts are compared
    choice     ``choices`` are put below the question with their letters
    numeric    right within ``tolerance`` or within ``rel_tolerance`` of the true value; ``take`` says which number
    """

    id: str
    kind: Kind
    messages: tuple[Message, ...]
    answers: tuple[str, ...]
    topic: str = ""
    normalise: tuple[Step, ...] = USUAL_STEPS
    match: Match = Match.WHOLE
    choices: tuple[str, ...] = ()
    tolerance: float = 0.0
    rel_tolerance: float = 0.0
    take: Take = Take.LAST
    output_tokens: int | None = None

    @property
    def asked(self) -> tuple[Message, ...]:
        """The messages as they are sent: choices with their letters are a part of the question."""
        if self.kind is not Kind.CHOICE:
            return self.messages
        *earlier, last = self.messages
        listed = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, self.choices, strict=False))
        text = f"{last.content}\n\n{listed}\n\nAnswer with the letter of the right choice only."
        return (*earlier, Message(last.role, text))

    @property
    def most_input_tokens(self) -> int:
        """No tokenizer makes more tokens than a text has bytes."""
        return sum(len(message.content.encode()) for message in self.asked)


@dataclass(frozen=True)
class _Line:
    """A line as it is written; ``answer`` and ``prompt`` are the short forms of ``answers`` and ``messages``."""

    id: str
    kind: Kind
    prompt: str | None = None
    messages: Any = None
    answer: Any = None
    answers: Any = None
    topic: str = ""
    normalise: tuple[Step, ...] = USUAL_STEPS
    match: Match = Match.WHOLE
    choices: tuple[str, ...] = ()
    tolerance: float = 0.0
    rel_tolerance: float = 0.0
    take: Take = Take.LAST
    output_tokens: int | None = None


@dataclass(frozen=True)
class TaskSet:
    """A named set; ``items`` are its lines as written, so that it can go into a specification."""

    name: str
    items: tuple[dict[str, Any], ...]

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Raises SpecError that names the item."""
        return _tasks([(f"tasks, item {number}", item) for number, item in enumerate(self.items, 1)])

    @property
    def sha256(self) -> str:
        """Equal for sets that ask the same, whatever they are called."""
        lines = orjson.dumps(self.items, option=orjson.OPT_SORT_KEYS)
        return sha256(lines).hexdigest()


@cache
def built_in() -> TaskSet:
    data = files("runners.quality").joinpath("data", f"{BUILT_IN}.jsonl").read_bytes()
    return parse(data, BUILT_IN)


def read(path: str) -> TaskSet:
    """A file of task lines, or the built-in set by its name. Raises SpecError that names the line."""
    if path == BUILT_IN:
        return built_in()
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SpecError(
            f'tasks: {path} cannot be read ({error.strerror}); give a JSONL file, or "{BUILT_IN}"'
        ) from None
    return parse(data, Path(path).stem)


def parse(data: bytes, name: str) -> TaskSet:
    """Raises SpecError that names the line."""
    if len(data) > MAX_BYTES:
        raise SpecError(f"{name}: {len(data)} bytes; a task set has at most {MAX_BYTES}")
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    items = [(f"{name}, line {number}", _object(line, f"{name}, line {number}")) for number, line in lines]
    _tasks(items)
    return TaskSet(name, tuple(item for _, item in items))


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        item = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise SpecError(f"{where}: not JSON ({error}): one JSON object a line is expected") from None
    if not isinstance(item, dict):
        raise SpecError(f"{where}: not a JSON object: one object a line is expected")
    return item


def _tasks(items: Sequence[tuple[str, dict[str, Any]]]) -> tuple[Task, ...]:
    if not items:
        raise SpecError("tasks: the set is empty: give at least one line")
    if len(items) > MAX_ITEMS:
        raise SpecError(f"tasks: {len(items)} items; a task set has at most {MAX_ITEMS}")
    seen: dict[str, str] = {}
    tasks = []
    for where, item in items:
        task = _task(item, where)
        if task.id in seen:
            raise SpecError(f"{where}: the id {task.id!r} stands in {seen[task.id]} already; each needs its own")
        seen[task.id] = where
        tasks.append(task)
    return tuple(tasks)


def _task(item: dict[str, Any], where: str) -> Task:
    line = build(_Line, item, where)
    if not line.id or len(line.id) > _LONGEST_ID:
        raise SpecError(f"{where}: the id must have 1 to {_LONGEST_ID} characters")
    if (line.prompt is None) == (line.messages is None):
        raise SpecError(f'{where}: give either "prompt" or "messages"')
    chat = [{"role": "user", "content": line.prompt}] if line.prompt is not None else line.messages
    messages = messages_of({"messages": chat}, where)
    if not any(message.content.strip() for message in messages) or messages[-1].role != "user":
        raise SpecError(f"{where}: the last message must be a question of the user that is not empty")
    answers = _answers(line, where)
    _check(line, answers, where)
    same = {name: value for name, value in vars(line).items() if name not in ("prompt", "answer")}
    return Task(**same | {"messages": messages, "answers": answers})


def _answers(line: _Line, where: str) -> tuple[str, ...]:
    if (line.answer is None) == (line.answers is None):
        raise SpecError(f'{where}: give either "answer" or "answers"')
    given = line.answers if line.answers is not None else [line.answer]
    wanted = int | float | str if line.kind is Kind.NUMERIC else str
    if not isinstance(given, list) or not given:
        raise SpecError(f"{where}: answers must be a list with at least one entry")
    if any(not isinstance(one, wanted) or isinstance(one, bool) or not str(one).strip() for one in given):
        what = "a number" if line.kind is Kind.NUMERIC else "a text that is not empty"
        raise SpecError(f"{where}: an answer of the kind {line.kind} is {what}")
    return tuple(str(one) for one in given)


def _check(line: _Line, answers: tuple[str, ...], where: str) -> None:
    if line.kind is Kind.CHOICE:
        letters = LETTERS[: len(line.choices)]
        if not 2 <= len(line.choices) <= len(LETTERS):
            raise SpecError(f"{where}: give 2 to {len(LETTERS)} choices")
        if any(answer not in tuple(letters) for answer in answers):
            raise SpecError(f"{where}: the answer must be one of the letters {', '.join(letters)}")
    elif line.choices:
        raise SpecError(f"{where}: choices belong to the kind choice only")
    if line.kind is Kind.NUMERIC:
        _check_numbers(line, answers, where)
    if line.output_tokens is not None and not 1 <= line.output_tokens <= 100_000:
        raise SpecError(f"{where}: output_tokens must be between 1 and 100000")


def _check_numbers(line: _Line, answers: tuple[str, ...], where: str) -> None:
    for name in ("tolerance", "rel_tolerance"):
        if not 0 <= getattr(line, name) < float("inf"):
            raise SpecError(f"{where}: {name} must be 0 or more")
    try:
        finite = all(isfinite(float(answer)) for answer in answers)
    except ValueError:
        finite = False
    if not finite:
        raise SpecError(f"{where}: the answer of a numeric question must be a finite number, such as 12 or 0.5")


def counts(tasks: Sequence[Task]) -> dict[str, int]:
    """How many of each kind."""
    return {str(kind): n for kind in Kind if (n := sum(task.kind is kind for task in tasks))}
