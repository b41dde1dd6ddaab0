"""Token lengths drawn as the specification says."""

import random
from functools import lru_cache
from math import log, sqrt
from pathlib import Path

from runners.load.words import Words
from runners.sources import Length, Shape, Tokens
from runners.spec import SpecError

_TRIES = 1_000


class Lengths:
    """Draws a length for each key, at least 1 and within the bounds."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._listed = read_lengths(tokens.file) if isinstance(tokens, Length) and tokens.file else ()

    def draw(self, words: Words, key: object) -> int:
        tokens = self._tokens
        if isinstance(tokens, int):
            return tokens
        source = words.draws(key)
        if tokens.shape is Shape.FILE:
            return source.choice(self._listed)
        low, high = tokens.low, tokens.high if tokens.high is not None else 1 << 40
        if tokens.shape is Shape.UNIFORM:
            return source.randrange(low, high + 1, tokens.step)
        for _ in range(_TRIES):
            drawn = round(_draw(source, tokens))
            if low <= drawn <= high:
                return drawn
        return min(max(round(tokens.mean or 1), low), high)


def _draw(source: random.Random, tokens: Length) -> float:
    mean, sd = tokens.mean or 1.0, tokens.sd or 0.0
    if tokens.shape is Shape.NORMAL:
        return source.gauss(mean, sd)
    spread = log(1 + (sd / mean) ** 2)  # of the logarithm, so that the lengths themselves have this mean and sd
    return source.lognormvariate(log(mean) - spread / 2, sqrt(spread))


@lru_cache(maxsize=8)
def read_lengths(path: str) -> tuple[int, ...]:
    """Raises SpecError that names the line."""
    try:
        lines = Path(path).read_text().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"the file of lengths {path} cannot be read ({error})") from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if not line.strip().isdigit() or int(line) < 1:
            raise SpecError(f"{path}, line {number}: {line.strip()[:40]!r} is not a whole number of 1 or more")
        found.append(int(line))
    if not found:
        raise SpecError(f"the file of lengths {path} is empty: give one whole number a line")
    return tuple(found)


def mean_tokens(tokens: Tokens) -> float:
    """What is drawn on average, bounds left aside."""
    if isinstance(tokens, int):
        return float(tokens)
    if tokens.shape is Shape.FILE:
        lengths = read_lengths(tokens.file)
        return sum(lengths) / len(lengths)
    if tokens.shape is Shape.UNIFORM:
        high = tokens.high or tokens.low
        return (tokens.low + high - (high - tokens.low) % tokens.step) / 2
    return tokens.mean or 1.0
