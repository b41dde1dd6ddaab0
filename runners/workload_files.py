"""The files that a workload names: which, of what kind, whether they can be used, and their SHA-256."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from runners.load.tokens import tokenizer_counter
from runners.load.workloads.files import read_chats, read_prompts
from runners.load.workloads.lengths import read_lengths
from runners.load.workloads.trace import read_trace
from runners.sources import Agents, Conversations, Length, PromptFile, ShareGpt, Trace, TraceForm
from runners.spec import RunSpec, SpecError, Workload


class FileKind(StrEnum):
    """docs/workloads.md describes the forms."""

    PROMPTS = "prompts"
    CHATS = "chats"
    MOONCAKE = "mooncake"
    BURSTGPT = "burstgpt"
    AZURE = "azure"
    LENGTHS = "lengths"
    TOKENIZER = "tokenizer"


@dataclass(frozen=True)
class Use:
    """``field``: where the specification names the file."""

    field: str
    name: str
    kind: FileKind


def uses(workload: Workload) -> list[Use]:
    """Every file that a workload names, in the order in which its fields come."""
    return [Use(field, name, kind) for field, name, kind in _uses(workload) if name]


def _uses(workload: Workload) -> Iterator[tuple[str, str, FileKind]]:
    source = workload.source
    lengths: dict[str, Any] = {"input_tokens": workload.input_tokens, "output_tokens": workload.output_tokens}
    match source:
        case PromptFile():
            yield "workload.source.file", source.file, FileKind.PROMPTS
        case ShareGpt():
            yield "workload.source.file", source.file, FileKind.CHATS
        case Conversations():
            yield "workload.source.file", source.file, FileKind.CHATS
            lengths["source.turns"] = source.turns
        case Trace():
            yield "workload.source.file", source.file, FileKind(source.form.value)
        case Agents():
            lengths |= {"source.calls": source.calls, "source.result_tokens": source.result_tokens}
    for field, tokens in lengths.items():
        if isinstance(tokens, Length):
            yield f"workload.{field}.file", tokens.file, FileKind.LENGTHS
    yield "workload.tokenizer", workload.tokenizer, FileKind.TOKENIZER


def sha256_of(path: str | Path) -> str:
    """Raises OSError."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(spec: RunSpec) -> RunSpec:
    """The specification with the SHA-256 of each of its files. Raises SpecError for one that cannot be read, or is not
    the one that the specification says.
    """
    found: dict[str, str] = {}
    for use in uses(spec.workload):
        try:
            found[use.name] = sha256_of(use.name)
        except OSError as error:
            raise SpecError(f"{use.field}: {use.name} cannot be read ({error.strerror})") from None
        if spec.files.get(use.name, found[use.name]) != found[use.name]:
            raise SpecError(f"files: {use.name} is not the file of this specification: its SHA-256 differs")
    return replace(spec, files=found)


def look(path: str, kind: FileKind) -> dict[str, float]:
    """What is in a file: ``entries``; of lengths ``mean_tokens``; of a trace ``span_s``, ``mean_input_tokens`` and
    ``mean_output_tokens``. Raises SpecError that names the line and says what is expected.
    """
    try:
        return _LOOKS[kind](path)
    except ValueError as error:
        raise SpecError(str(error)) from None
    except RecursionError:
        raise SpecError(f"{path}: its JSON is nested too deeply") from None


def _lengths(path: str) -> dict[str, float]:
    found = read_lengths(path)
    return {"entries": len(found), "mean_tokens": sum(found) / len(found)}


def _trace(form: TraceForm) -> Callable[[str], dict[str, float]]:
    def read(path: str) -> dict[str, float]:
        entries = read_trace(Trace(path, form)).entries
        return {
            "entries": len(entries),
            "span_s": entries[-1].at_s,
            "mean_input_tokens": sum(entry.input_tokens for entry in entries) / len(entries),
            "mean_output_tokens": sum(entry.output_tokens for entry in entries) / len(entries),
        }

    return read


def _tokenizer(path: str) -> dict[str, float]:
    tokenizer_counter(path)
    return {}


_LOOKS: dict[FileKind, Callable[[str], dict[str, float]]] = {
    FileKind.PROMPTS: lambda path: {"entries": len(read_prompts(path))},
    FileKind.CHATS: lambda path: {"entries": len(read_chats(path))},
    FileKind.MOONCAKE: _trace(TraceForm.MOONCAKE),
    FileKind.BURSTGPT: _trace(TraceForm.BURSTGPT),
    FileKind.AZURE: _trace(TraceForm.AZURE),
    FileKind.LENGTHS: _lengths,
    FileKind.TOKENIZER: _tokenizer,
}
