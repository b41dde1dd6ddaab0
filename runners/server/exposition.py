"""The text format of Prometheus, read strictly where it is asked for and not at all elsewhere.

A page of vLLM has some thousand lines of which a few dozen matter, and it is read each second beside a measurement: a
line is only taken apart when its name is wanted, and what another metric wrote wrongly does no harm.
"""

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from math import inf, nan

_NAME_END = re.compile(r"[{ \t]")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
_LABELS = re.compile(rf"\{{(?:{_LABEL.pattern}(?:,{_LABEL.pattern})*,?)?\}}")
_VALUE = re.compile(r"[ \t]+([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?Inf|NaN)(?:[ \t]+(-?\d+))?[ \t]*")
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
_ESCAPED = re.compile(r'\\[\\"n]')
_WORDS = {"NaN": nan, "Inf": inf, "+Inf": inf, "-Inf": -inf}


class ExpositionError(ValueError):
    """A line that was asked for cannot be read; the message holds its number and its beginning."""


@dataclass(frozen=True)
class Sample:
    """``labels`` are the text between the braces; ``labels_of`` takes it apart. ``stamp_ms``: milliseconds since 1970,
    where the page dates the sample.
    """

    name: str
    labels: str
    value: float
    stamp_ms: int | None = None


def samples(page: str, wanted: Container[str]) -> Iterator[Sample]:
    """The samples of the names that are wanted, in the page's order. Raises ExpositionError."""
    for number, line in enumerate(page.split("\n"), 1):
        end = _NAME_END.search(line)
        if end is None or line[: end.start()] not in wanted:
            continue
        yield _sample(line.rstrip("\r"), end.start(), number)


def _sample(line: str, name_end: int, number: int) -> Sample:
    labels = ""
    at = name_end
    if line[at] == "{":
        found = _LABELS.match(line, at)
        if found is None:
            raise ExpositionError(f"line {number} has labels that cannot be read: {line[:80]}")
        labels, at = found[0][1:-1].rstrip(","), found.end()
    value = _VALUE.fullmatch(line, at)
    if value is None:
        raise ExpositionError(f"line {number} has no value that can be read: {line[:80]}")
    number_read = _WORDS[value[1]] if value[1] in _WORDS else float(value[1])
    return Sample(line[:name_end], labels, number_read, int(value[2]) if value[2] else None)


def labels_of(labels: str) -> Mapping[str, str]:
    """Label names and values, such as {"le": "0.5"}."""
    return {name: _ESCAPED.sub(lambda found: _ESCAPES[found[0]], value) for name, value in _LABEL.findall(labels)}
