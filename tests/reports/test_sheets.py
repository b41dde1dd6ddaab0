import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from observatory.reports.sheets import Sheet, cell, guarded, response

HOSTILE = ["=cmd|'/c calc'!A1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\x00=1", "＝1"]


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize("text", HOSTILE)
def test_text_that_looks_like_a_formula_gets_a_leading_quote(text: str) -> None:
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize(
    "text", ["", "llama-3.1", "a=b", "1+1", "<img onerror=x>", "a\u202eb", "%{x}", 'say "hi", twice']
)
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert read(Sheet(("model", "x"), [{"model": text}]).text())[1] == [text, ""]


@given(st.text())
@example("=1\ud800")
def test_no_text_ever_starts_a_formula_and_none_of_it_is_lost(text: str) -> None:
    shown = cell(text)
    assert not shown.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\x00"))
    assert shown.removeprefix("'").encode() == text.removeprefix("'").encode(errors="replace")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-1.5, "-1.5"),
        (0, "0"),
        (-3, "-3"),
        (1e-9, "1e-09"),
        (Decimal("-1.2500"), "-1.2500"),
        (True, "true"),
        (False, "false"),
        (None, ""),
        (float("nan"), ""),
        (float("-inf"), ""),
        (datetime(2026, 11, 12, tzinfo=UTC), "2026-11-12T00:00:00+00:00"),
    ],
)
def test_numbers_are_untouched_and_missing_is_empty(value: Any, shown: str) -> None:
    assert cell(value) == shown


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.text(), st.integers(), st.floats()))))
def test_every_row_has_the_headers_columns_whatever_it_leaves_out(rows: list[dict[str, Any]]) -> None:
    header, *found = read(Sheet(("a", "b", "c"), rows).text())
    assert header == ["a", "b", "c"]
    assert found == [[cell(row.get(name)) for name in header] for row in rows]


def test_a_column_that_the_header_lacks_is_an_error_and_not_a_shifted_cell() -> None:
    with pytest.raises(ValueError, match="surprise"):
        Sheet(("a",), [{"a": 1, "surprise": 2}]).text()


def test_a_download_is_utf_8_with_a_name() -> None:
    answer = response(Sheet(("modèle",), [{"modèle": "žluťoučký"}]), "x.csv")
    assert b"".join(answer.streaming_content).decode() == "modèle\r\nžluťoučký\r\n"  # type: ignore[arg-type]
    assert answer["Content-Disposition"] == 'attachment; filename="x.csv"'
