"""Model files that are made from the packaged model, without a network: other precisions, fewer layers, other formats.

A name such as ``SmolLM2-135M-Instruct:Q8_0:layers=20`` says what is asked for: ``layers=20`` that so many are left,
``experts=8`` that each feed-forward part is so many experts of half its width, of which each token uses two,
``width=4`` that it is so many times as wide; ``MEDUSA`` and ``EAGLE`` are heads that guess ahead of it, ``LORA`` and
``LORA:seed=2`` adapters of it. Each is made once and kept with its checksums. The source is Q4_1: a higher precision
makes it larger and slower, and no better.
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
#: A folder with config.json, safetensors and the tokenizer: in BF16, or in a layout of quantized checkpoints.
HF = "HF"
HEADS = ("MEDUSA", "EAGLE")
ADAPTER = "LORA"
FOLDER_FORMS = (HF, "W8A8", "GPTQ", "AWQ", *HEADS, ADAPTER)
LAYERS = 30
#: Those that each token uses.
EXPERTS_USED = 2
MOST_EXPERTS, MOST_WIDTH = 32, 16
_NAME = re.compile(
    re.escape(MODEL_NAME) + r"(?::(?P<form>[A-Z0-9_]+))?(?::layers=(?P<layers>[0-9]+))?"
    r"(?::experts=(?P<experts>[0-9]+)|:width=(?P<width>[0-9]+)|:seed=(?P<seed>[0-9]{1,9}))?"
)
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Derived:
    """``experts``: per layer, none in a dense model. ``width``: of the feed-forward part against that of the source.
    ``seed``: of the numbers of an adapter.
    """

    form: str
    layers: int = LAYERS
    experts: int = 0
    width: int = 1
    seed: int = 0

    @classmethod
    def named(cls, name: str, field: str) -> Self | None:
        """None where the name is not one of the packaged model. Raises SpecError."""
        if name.partition(":")[0] != MODEL_NAME:
            return None
        found = _NAME.fullmatch(name)
        forms = (*GGUF_FORMS, *FOLDER_FORMS)
        if found is None or (found["form"] or HF) not in forms:
            words = f"write it as {MODEL_NAME}:FORM or {MODEL_NAME}:FORM:layers=20"
            raise SpecError(f"{field}: {words}; forms are {', '.join(forms)}")
        layers = int(found["layers"] or LAYERS)
        if not 2 <= layers <= LAYERS:
            raise SpecError(f"{field}: the model has {LAYERS} layers; keep 2 to {LAYERS}")
        experts, width, seed = int(found["experts"] or 0), int(found["width"] or 1), int(found["seed"] or 0)
        asked = cls(found["form"] or "Q4_1", layers, experts, width, seed)
        if not asked.is_model and found["layers"]:
            raise SpecError(f"{field}: {asked.form} goes with the whole model, and has no layers to keep")
        if found["seed"] and not asked.is_adapter:
            raise SpecError(f"{field}: a seed is of an adapter, such as {MODEL_NAME}:{ADAPTER}:seed=2")
        asked._check_feed_forward(found["experts"] is not None, field)
        return asked

    def _check_feed_forward(self, mixture: bool, field: str) -> None:
        if (mixture or self.width > 1) and self.is_folder:
            raise SpecError(f"{field}: experts and width are of GGUF forms, such as {MODEL_NAME}:F16:experts=8")
        if mixture and not EXPERTS_USED <= self.experts <= MOST_EXPERTS:
            raise SpecError(f"{field}: {EXPERTS_USED} to {MOST_EXPERTS} experts; each token uses {EXPERTS_USED}")
        if not 1 <= self.width <= MOST_WIDTH:
            raise SpecError(f"{field}: 1 to {MOST_WIDTH} times as wide")

    @property
    def is_source(self) -> bool:
        return self == Derived("Q4_1")

    @property
    def is_head(self) -> bool:
        """Guesses ahead of the model, and is none itself."""
        return self.form in HEADS

    @property
    def is_adapter(self) -> bool:
        """Changes what the model says, and is none itself."""
        return self.form == ADAPTER

    @property
    def is_model(self) -> bool:
        return not self.is_head and not self.is_adapter

    @property
    def is_folder(self) -> bool:
        """For vLLM and transformers; else a GGUF file for llama.cpp."""
        return self.form in FOLDER_FORMS

    @property
    def folder_name(self) -> str:
        experts = f"-experts-{self.experts}" if self.experts else ""
        width = f"-width-{self.width}" if self.width > 1 else ""
        seed = f"-seed-{self.seed}" if self.seed else ""
        return f"{MODEL_NAME}-{self.form}-{self.layers}{experts}{width}{seed}"


def cache() -> Path:
    """Where they are kept: in VAR_DIR, as the application's own state."""
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("VAR_DIR") or root / "var") / "derived-models"


def path_of(asked: Derived) -> Path:
    """What an engine is given: the GGUF file, or the folder. It need not be there yet."""
    folder = cache() / asked.folder_name
    return folder if asked.is_folder else folder / f"{asked.folder_name}.gguf"


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
