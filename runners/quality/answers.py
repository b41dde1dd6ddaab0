"""What was answered to each task: rows of answers.parquet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runners.load.dialects.base import Token
from runners.load.outcomes import Outcome

#: ``tokens`` and the three lists beside it are null where the endpoint gave no log probabilities.
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("outcome", pa.string()),
        ("detail", pa.string()),
        ("answer", pa.string()),  # null where the request failed
        ("finish_reason", pa.string()),
        ("expected", pa.string()),
        ("found", pa.string()),  # what was read out of the answer; null when nothing of the kind was there
        ("by", pa.string()),
        ("correct", pa.bool_()),  # null where the request failed: that is no wrong answer
        ("tokens", pa.list_(pa.string())),
        ("logprobs", pa.list_(pa.float32())),
        ("top_tokens", pa.list_(pa.list_(pa.string()))),
        ("top_logprobs", pa.list_(pa.list_(pa.float32()))),
    ]
)


@dataclass(frozen=True)
class Answer:
    """One task's answer; ``correct`` and ``text`` are None where the request failed."""

    id: str
    kind: str
    topic: str = ""
    outcome: str = Outcome.OK.value
    detail: str = ""
    text: str | None = None
    finish_reason: str | None = None
    expected: str = ""
    found: str | None = None
    by: str = ""
    correct: bool | None = None
    tokens: tuple[Token, ...] = ()

    @property
    def answered(self) -> bool:
        return self.text is not None


def table(answers: Sequence[Answer]) -> pa.Table:
    return pa.Table.from_pylist([_row(answer) for answer in answers], schema=SCHEMA)


def _row(answer: Answer) -> dict[str, Any]:
    names = ("id", "kind", "topic", "outcome", "detail", "finish_reason", "expected", "found", "by", "correct")
    tokens = answer.tokens or None
    return {name: getattr(answer, name) for name in names} | {
        "answer": answer.text,
        "tokens": tokens and [token.text for token in tokens],
        "logprobs": tokens and [token.logprob for token in tokens],
        "top_tokens": tokens and [[text for text, _ in token.top] for token in tokens],
        "top_logprobs": tokens and [[logprob for _, logprob in token.top] for token in tokens],
    }


def from_table(rows: pa.Table) -> list[Answer]:
    return [_answer(row) for row in rows.to_pylist()]


def _answer(row: dict[str, Any]) -> Answer:
    lists = [row.pop(name) or [] for name in ("tokens", "logprobs", "top_tokens", "top_logprobs")]
    tokens = [
        Token(text, logprob, tuple(zip(texts, logprobs, strict=True)))
        for text, logprob, texts, logprobs in zip(*lists, strict=True)
    ]
    text = row.pop("answer")
    return Answer(**row, text=text, tokens=tuple(tokens))
