"""Tables as CSV: a fixed header, cells keyed by column, empty where nothing is known.

Text that a spreadsheet would run as a formula gets a leading quote; numbers are left as they are.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from django.http import StreamingHttpResponse

#: First characters that make Excel, LibreOffice or Google Sheets read a cell as a formula; in full width too.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\x00", "＝", "＋", "－", "＠")

Cells = Mapping[str, Any]


@dataclass(frozen=True)
class Sheet:
    """``rows`` are read once; each gives its cells by column name, and what it leaves out is empty."""

    header: tuple[str, ...]
    rows: Iterable[Cells]

    def lines(self) -> Iterator[str]:
        """CSV as of RFC 4180, a line at a time. Raises ValueError when a row has a column that is not in the header."""
        yield _line(self.header)
        for row in self.rows:
            unknown = row.keys() - set(self.header)
            if unknown:
                raise ValueError(f"not in the header: {', '.join(sorted(unknown))}")
            yield _line([row.get(name) for name in self.header])

    def text(self) -> str:
        return "".join(self.lines())


def response(sheet: Sheet, name: str) -> StreamingHttpResponse:
    """The sheet as a download, UTF-8, sent line by line."""
    lines = (line.encode() for line in sheet.lines())
    return StreamingHttpResponse(
        lines,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def cell(value: Any) -> str:
    """One value as the text of its cell."""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return guarded(json.dumps(value) if isinstance(value, dict | list) else str(value))


def guarded(text: str) -> str:
    """``text`` that no spreadsheet runs: a quote goes before what looks like a formula."""
    clean = text.encode(errors="replace").decode()
    return f"'{clean}" if clean.startswith(_FORMULA_STARTS) else clean


def _line(values: Iterable[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow([cell(value) for value in values])
    return buffer.getvalue()
