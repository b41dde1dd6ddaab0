"""What the requests of a run are made of, as plain data: token lengths and the kinds of workload.

docs/workloads.md says what each kind sends and which forms of files it takes.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Literal

MAX_INPUT_TOKENS, MAX_OUTPUT_TOKENS = 2_000_000, 1_000_000
_MAX_TURNS, _MAX_GROUPS, _MAX_WAIT_S = 10_000, 1_000_000, 86_400


class Shape(StrEnum):
    UNIFORM = "uniform"
    NORMAL = "normal"
    LOGNORMAL = "lognormal"
    FILE = "file"


@dataclass(frozen=True)
class Length:
    """Token lengths that vary from request to request.

    uniform             every whole number from ``low`` to ``high`` alike; with a ``step`` only low, low + step, ...
    normal, lognormal   of this ``mean`` and standard deviation ``sd``; drawn again when outside of ``low`` to ``high``
    file                drawn from the lengths in ``file``, one whole number a line
    """

    shape: Shape
    mean: float | None = None
    sd: float | None = None
    low: int = 1
    high: int | None = None
    step: int = 1
    file: str = ""


#: A whole number is a fixed length.
Tokens = int | Length


@dataclass(frozen=True)
class Synthetic:
    """Made-up prompts, each unlike any other."""

    kind: Literal["synthetic"] = "synthetic"


@dataclass(frozen=True)
class PromptFile:
    """JSON lines, each a prompt or a chat. The spec's input length does not count."""

    file: str
    kind: Literal["prompts"] = "prompts"


@dataclass(frozen=True)
class ShareGpt:
    """The first question of each recorded chat; its recorded answer sets the output length where a tokenizer can count
    it. The spec's input length does not count."""

    file: str
    kind: Literal["sharegpt"] = "sharegpt"


@dataclass(frozen=True)
class Prefixes:
    """Prompts that begin alike within a group. Groups are drawn with a weight of 1 / rank ** ``zipf``; the input length
    holds the prefix."""

    groups: int = 8
    prefix_tokens: int = 512
    zipf: float = 1.0
    kind: Literal["prefixes"] = "prefixes"


@dataclass(frozen=True)
class Conversations:
    """Several turns; the history holds the model's own answers. A turn is due ``think_s`` after the answer before it
    and not before its place in the schedule, which has a turn every ``every_s``. ``think_cv`` spreads think times:
    their standard deviation / mean; 0: all alike, 1: exponential. The input length is that of each question.
    ``system_tokens`` open every conversation alike. With a ``file`` (recorded chats) its questions are asked, at most
    ``turns`` of each.
    """

    turns: Tokens = 4
    think_s: float = 1.0
    think_cv: float = 0.0
    every_s: float = 0.0
    system_tokens: int = 0
    file: str = ""
    kind: Literal["conversations"] = "conversations"


@dataclass(frozen=True)
class Agents:
    """Tasks of ``calls`` requests that wait for each other: each holds all that came before, its answers and a tool's
    result of ``result_tokens``, which takes ``tool_s``. The input length is that of the task."""

    calls: Tokens = 5
    result_tokens: Tokens = 256
    tool_s: float = 0.5
    system_tokens: int = 512
    kind: Literal["agents"] = "agents"


class TraceForm(StrEnum):
    MOONCAKE = "mooncake"
    BURSTGPT = "burstgpt"
    AZURE = "azure"


@dataclass(frozen=True)
class Trace:
    """Lengths, and times where the arrivals are ``replay``, as recorded. The spec's lengths do not count.
    ``block_tokens``: how long the block behind each hash of a Mooncake trace is."""

    file: str
    form: TraceForm
    block_tokens: int = 512
    kind: Literal["trace"] = "trace"


Source = Synthetic | PromptFile | ShareGpt | Prefixes | Conversations | Agents | Trace


def length_complaint(tokens: Tokens, most: int) -> str | None:
    """What is wrong with a length, and how to put it right; None when nothing is."""
    if isinstance(tokens, int):
        return None if 1 <= tokens <= most else f"between 1 and {most}"
    if tokens.low < 1 or (tokens.high is not None and not tokens.low <= tokens.high <= most):
        return f"low and high: 1 <= low <= high <= {most}"
    if tokens.step < 1 or (tokens.step > 1 and tokens.shape is not Shape.UNIFORM):
        return "step: 1 or more, and only with uniform"
    if tokens.shape is Shape.UNIFORM:
        return None if tokens.high is not None else "uniform: give low and high"
    if tokens.shape is Shape.FILE:
        return None if tokens.file else "file: give the path of a file with one whole number a line"
    if tokens.mean is None or tokens.sd is None or not 1 <= tokens.mean <= most or not 0 <= tokens.sd < float("inf"):
        return f"{tokens.shape}: give a mean between 1 and {most} and an sd of 0 or more"
    if tokens.mean < tokens.low or tokens.mean > (tokens.high or most):
        return f"{tokens.shape}: the mean must lie between low and high"
    return None


def most_tokens(tokens: Tokens) -> int | None:
    """The most that can be drawn; None without a bound."""
    return tokens if isinstance(tokens, int) else tokens.high


def source_complaint(source: Source, input_tokens: Tokens) -> tuple[str, str] | None:
    """(field, what must be put right), None when nothing must."""
    match source:
        case PromptFile() | ShareGpt() | Trace() if not source.file:
            return "file", "give the path of a file"
        case Trace() if not 1 <= source.block_tokens <= MAX_INPUT_TOKENS:
            return "block_tokens", f"between 1 and {MAX_INPUT_TOKENS}"
        case Prefixes():
            return _prefixes_complaint(source, input_tokens)
        case Conversations():
            return _conversations_complaint(source)
        case Agents():
            return _agents_complaint(source)
    return None


def _prefixes_complaint(source: Prefixes, input_tokens: Tokens) -> tuple[str, str] | None:
    if not 1 <= source.groups <= _MAX_GROUPS:
        return "groups", f"between 1 and {_MAX_GROUPS}"
    if not 0 <= source.zipf <= 10:
        return "zipf", "between 0 (all groups alike) and 10"
    least = input_tokens if isinstance(input_tokens, int) else input_tokens.low
    if not 1 <= source.prefix_tokens < least:
        return "prefix_tokens", f"at least 1 and below the input length ({least} at its least), which holds the prefix"
    return None


def _conversations_complaint(source: Conversations) -> tuple[str, str] | None:
    if complaint := length_complaint(source.turns, _MAX_TURNS):
        return "turns", complaint
    for name in ("think_s", "every_s"):
        if not 0 <= getattr(source, name) <= _MAX_WAIT_S:
            return name, f"between 0 and {_MAX_WAIT_S} seconds"
    if not 0 <= source.think_cv <= 10:
        return "think_cv", "between 0 (always the same) and 10"
    return _system_complaint(source.system_tokens)


def _agents_complaint(source: Agents) -> tuple[str, str] | None:
    if complaint := length_complaint(source.calls, _MAX_TURNS):
        return "calls", complaint
    if complaint := length_complaint(source.result_tokens, MAX_INPUT_TOKENS):
        return "result_tokens", complaint
    if not 0 <= source.tool_s <= _MAX_WAIT_S:
        return "tool_s", f"between 0 and {_MAX_WAIT_S} seconds"
    return _system_complaint(source.system_tokens)


def _system_complaint(tokens: int) -> tuple[str, str] | None:
    return None if 0 <= tokens <= MAX_INPUT_TOKENS else ("system_tokens", f"between 0 and {MAX_INPUT_TOKENS}")


def length_option(tokens: Tokens) -> str:
    """What ``parse_length`` reads."""
    if isinstance(tokens, int):
        return str(tokens)
    if tokens.shape is Shape.FILE:
        return f"{tokens.shape}:{tokens.file}"
    step = tokens.step if tokens.step > 1 else None
    values = {"mean": tokens.mean, "sd": tokens.sd, "low": tokens.low, "high": tokens.high, "step": step}
    return f"{tokens.shape}:" + ",".join(f"{key}={value}" for key, value in values.items() if value is not None)


def parse_length(text: str) -> Tokens:
    """From "128", "uniform:low=64,high=256", "normal:mean=512,sd=128,high=2048" or "file:PATH".

    Raises ValueError with what was expected.
    """
    if text.isdigit():
        return int(text)
    name, _, rest = text.partition(":")
    if name not in set(Shape):
        raise ValueError(
            f"{text!r} is neither a whole number nor one of {', '.join(Shape)} with its numbers behind a :"
        )
    shape = Shape(name)
    if shape is Shape.FILE:
        return Length(shape, file=rest)
    values: dict[str, float] = {}
    for part in filter(None, rest.split(",")):
        key, _, number = part.partition("=")
        try:
            values[key] = float(number)
        except ValueError:
            raise ValueError(f"{part!r}: write it as mean=512") from None
        if key not in ("mean", "sd", "low", "high", "step") or not isfinite(values[key]):
            raise ValueError(f"{part!r} is not one of mean, sd, low, high, step with a number")
    low, high, step = int(values.get("low", 1)), values.get("high"), int(values.get("step", 1))
    return Length(shape, values.get("mean"), values.get("sd"), low, None if high is None else int(high), step)
