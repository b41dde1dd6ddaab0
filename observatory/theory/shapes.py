"""Shapes of public models, from ``data/models.csv``; each row names its source."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

_FILE = Path(__file__).resolve().parent / "data" / "models.csv"


@dataclass(frozen=True)
class Shape:
    """Parameters in units of 1e9. ``latent_dim``: cached values per token and layer of multi-head latent attention,
    0 where keys and values are cached whole. A dense model has one expert.
    """

    slug: str
    name: str
    parameters_b: float
    active_b: float
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    latent_dim: int
    experts: int
    experts_active: int
    source: str


def _read() -> tuple[Shape, ...]:
    with _FILE.open(newline="", encoding="utf-8") as file:
        return tuple(_shape(row) for row in csv.DictReader(file, strict=True))


def _shape(row: dict[str, str]) -> Shape:
    kinds = get_type_hints(Shape)
    values: dict[str, Any] = {name: kinds[name](text) for name, text in row.items()}
    return Shape(**values)


SHAPES = _read()
BY_SLUG = {shape.slug: shape for shape in SHAPES}


def named(model: str) -> Shape | None:
    """The shape of a model by the name that a server gives it, such as "meta-llama/Llama-3.1-8B-Instruct"."""
    words = _plain(model.rsplit("/", 1)[-1])
    if "distill" in words:  # named after its teacher, shaped as another
        return None
    fitting = [shape for shape in SHAPES if words.startswith(_plain(shape.slug))]
    return max(fitting, key=lambda shape: len(shape.slug), default=None)


def _plain(name: str) -> str:
    """Lower case, one dash between words: "Meta-Llama 3.3 70B" and "llama-3.1-70b" come out alike."""
    words = re.sub(r"[^a-z0-9.]+", "-", name.lower()).removeprefix("meta-")
    words = re.sub(r"^(llama|gemma|phi)(?=[0-9])", r"\1-", words)
    return words.replace("llama-3.3-70b", "llama-3.1-70b").replace("deepseek-r1", "deepseek-v3") + "-"
