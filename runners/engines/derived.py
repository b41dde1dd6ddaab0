"""Model files that are made from the packaged model, without a network: other precisions, fewer layers, other formats.

A name such as ``SmolLM2-135M-Instruct:Q8_0:layers=20`` says what is asked for. Each is made once and kept with its
checksums. The source is Q4_1: a higher precision makes it larger and slower, and no better.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from runners.engines.packaged import MODEL_NAME
from runners.strict_json import SpecError

#: Forms of GGUF, with their number in ``enum llama_ftype``.
GGUF_FORMS = {
    "F16": 1, "BF16": 32, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q4_0": 2, "Q4_1": 3, "Q4_K_M": 15,
}  # fmt: skip
#: A folder with config.json, safetensors in BF16 and the tokenizer.
HF = "HF"
LAYERS = 30
_NAME = re.compile(re.escape(MODEL_NAME) + r"(?::(?P<form>[A-Z0-9_]+))?(?::layers=(?P<layers>[0-9]+))?")
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Derived:
    form: str
    layers: int = LAYERS

    @classmethod
    def named(cls, name: str, field: str) -> Self | None:
        """None where the name is not one of the packaged model. Raises SpecError."""
        if name.partition(":")[0] != MODEL_NAME:
            return None
        found = _NAME.fullmatch(name)
        forms = ", ".join((*GGUF_FORMS, HF))
        if found is None or (found["form"] or HF) not in (*GGUF_FORMS, HF):
            raise SpecError(f"{field}: write it as {MODEL_NAME}:FORM or {MODEL_NAME}:FORM:layers=20; forms are {forms}")
        layers = int(found["layers"] or LAYERS)
        if not 2 <= layers <= LAYERS:
            raise SpecError(f"{field}: the model has {LAYERS} layers; keep 2 to {LAYERS}")
        return cls(found["form"] or "Q4_1", layers)

    @property
    def is_source(self) -> bool:
        return self == Derived("Q4_1")

    @property
    def folder_name(self) -> str:
        return f"{MODEL_NAME}-{self.form}-{self.layers}"


def cache() -> Path:
    """Where they are kept: in VAR_DIR, as the application's own state."""
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("VAR_DIR") or root / "var") / "derived-models"


def path_of(asked: Derived) -> Path:
    """What an engine is given: the GGUF file, or the folder. It need not be there yet."""
    folder = cache() / asked.folder_name
    return folder if asked.form == HF else folder / f"{asked.folder_name}.gguf"


def is_whole(asked: Derived) -> bool:
    """Whether it was made, and is what it was when it was made."""
    folder = cache() / asked.folder_name
    try:
        kept = (folder / SUMS).read_text()
    except OSError:
        return False
    return kept == sums_of(folder)


def sums(asked: Derived) -> str:
    """The checksums that were kept with its files, as ``sha256sum`` writes them."""
    return (cache() / asked.folder_name / SUMS).read_text()


def sums_of(folder: Path) -> str:
    """The checksums of the files that lie there now."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.name != SUMS:
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)
