"""Recorded traces: Mooncake JSON lines, BurstGPT CSV, Azure LLM inference CSV."""

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from runners.load.arrivals import Offsets
from runners.load.words import Words
from runners.load.workloads.base import Context, Message, Single, Turn
from runners.sources import Trace, TraceForm
from runners.spec import SpecError

_CACHED_BLOCKS = 4_096


@dataclass(frozen=True)
class Entry:
    """``blocks`` are the hashes of the prompt's blocks, in order; empty where the trace has none."""

    at_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Recording:
    """In the order of time, from 0 s. ``skipped``: entries without an input or output, which cannot be asked for."""

    entries: list[Entry]
    skipped: int

    @property
    def per_s(self) -> float:
        """Requests a second, on average, as recorded."""
        return len(self.entries) / max(self.entries[-1].at_s, 1.0)

    def offsets_ns(self, speed: float) -> Offsets:
        """When each is due from the first on, ``speed`` times as fast as recorded."""
        return np.rint(np.array([entry.at_s for entry in self.entries]) / speed * 1e9).astype(np.int64)


class TraceTurns(Single):
    """Entry after entry. Blocks of equal hash are equal text, so that a cache can serve them as in the recording."""

    def __init__(self, source: Trace, read: Recording, context: Context) -> None:
        self._source, self._read, self._fit = source, read, context.fit
        self._words = Words(context.seed, context.salt, context.fit.vocabulary)
        self._block = lru_cache(maxsize=_CACHED_BLOCKS)(self._block_text)
        self._seen: set[int] = set()

    def start(self, index: int) -> Turn:
        entry = self._read.entries[index % len(self._read.entries)]
        count = self._fit.words_for(entry.input_tokens)
        if not entry.blocks:
            prompt, reusable = self._words.text(str(index), count), 0
        else:
            prompt, reusable = self._of_blocks(index, entry, count), self._reusable(entry)
            self._seen.update(entry.blocks)
        return Turn((Message("user", prompt),), entry.input_tokens, entry.output_tokens, reusable)

    def _of_blocks(self, index: int, entry: Entry, count: int) -> str:
        """The first ``count`` words of its blocks; what they leave out is the prompt's own."""
        per_block = self._fit.words_of(self._source.block_tokens)
        words = [word for block in entry.blocks[: -(-count // per_block)] for word in self._block(block)][:count]
        rest = count - len(words)
        return " ".join([*words, self._words.text(str(index), rest)] if rest else words)

    def _reusable(self, entry: Entry) -> int:
        known = next((i for i, block in enumerate(entry.blocks) if block not in self._seen), len(entry.blocks))
        return min(known * self._source.block_tokens, entry.input_tokens)

    def _block_text(self, block: int) -> list[str]:
        return self._words.text(f"block {block}", self._fit.words_of(self._source.block_tokens)).split()


def words(source: Trace, read: Recording) -> str:
    span_s = read.entries[-1].at_s
    skipped = f"; {read.skipped} entries without input or output are left out" if read.skipped else ""
    reuse = (
        f"each hash stands for a block of {source.block_tokens} made-up tokens, equal for equal hashes"
        if source.form is TraceForm.MOONCAKE
        else "each prompt is made up and unlike any other, for the trace does not tell what prompts shared"
    )
    return f"{len(read.entries)} requests of {source.file} ({source.form}) over {span_s:g} s{skipped}; {reuse}"


def read_trace(source: Trace) -> Recording:
    """Raises SpecError that names the line."""
    reader: Callable[[Path], Iterable[Entry]] = {
        TraceForm.MOONCAKE: _read_mooncake, TraceForm.BURSTGPT: _read_burstgpt, TraceForm.AZURE: _read_azure,
    }[source.form]  # fmt: skip
    try:
        found = list(reader(Path(source.file)))
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"workload.source.file: {source.file} cannot be read ({error})") from None
    asked = sorted((e for e in found if e.input_tokens > 0 and e.output_tokens > 0), key=lambda entry: entry.at_s)
    if not asked:
        raise SpecError(f"workload.source.file: {source.file} holds no request in the {source.form} form")
    entries = [Entry(e.at_s - asked[0].at_s, e.input_tokens, e.output_tokens, e.blocks) for e in asked]
    return Recording(entries, len(found) - len(asked))


def _read_mooncake(path: Path) -> Iterator[Entry]:
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
            blocks = tuple(int(block) for block in row.get("hash_ids") or ())
            yield Entry(float(row["timestamp"]) / 1e3, int(row["input_length"]), int(row["output_length"]), blocks)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise SpecError(
                f"{path}, line {number}: not an object with timestamp (in ms), input_length, output_length and hash_ids"
            ) from None


def _read_burstgpt(path: Path) -> Iterator[Entry]:
    columns = ("Timestamp", "Request tokens", "Response tokens")
    return _read_csv(path, columns, float)


def _read_azure(path: Path) -> Iterator[Entry]:
    return _read_csv(path, ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _azure_s)


def _azure_s(text: str) -> float:
    """Seconds since 1970 of such as "2023-11-16 18:17:03.9799600"; 100 ns steps."""
    whole, _, part = text.strip().removesuffix("+00:00").partition(".")
    return datetime.fromisoformat(whole + "+00:00").timestamp() + float(f"0.{part or 0}")


def _read_csv(path: Path, columns: tuple[str, str, str], seconds: Callable[[str], float]) -> Iterator[Entry]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader: Any = csv.DictReader(file)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise SpecError(f"{path}: no column {missing[0]!r}; expected are {', '.join(columns)}")
        for number, row in enumerate(reader, 2):
            at, asked, given = (row[name] for name in columns)
            try:
                yield Entry(seconds(at), int(float(asked)), int(float(given)))
            except (ValueError, TypeError):
                raise SpecError(
                    f"{path}, line {number}: {at!r}, {asked!r}, {given!r} are not a time and two counts"
                ) from None
