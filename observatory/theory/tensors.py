"""Matrices of GGUF and safetensors files, read in place: only the rows asked for are loaded.

GGUF: specification version 3 of ggml, docs/gguf.md; blocks of Q8_0, Q4_0 and Q4_1 as in ggml-common.h. safetensors:
README of huggingface/safetensors, section Format. Other types are listed but not read.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from observatory.theory.formats import Matrix
from runners.gguf import read_head, read_text

_LONGEST_HEADER = 100_000_000


class TensorError(ValueError):
    """A file or tensor that cannot be read; the message says why and what would do."""


@dataclass(frozen=True)
class Kind:
    """How numbers are stored: a block of ``values`` numbers takes ``size`` bytes."""

    name: str
    values: int
    size: int
    decode: Callable[[bytes], Matrix] | None = None


@dataclass(frozen=True)
class Tensor:
    """``shape`` as rows and columns; ``offset`` from the beginning of the file."""

    name: str
    shape: tuple[int, ...]
    kind: Kind
    offset: int

    @property
    def readable(self) -> bool:
        """Whether it is a matrix of a type that is known."""
        return len(self.shape) == 2 and self.kind.decode is not None


def _plain(code: str) -> Callable[[bytes], Matrix]:
    return lambda raw: np.frombuffer(raw, dtype=code).astype(np.float64)


def _bf16(raw: bytes) -> Matrix:
    return (np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _q8_0(raw: bytes) -> Matrix:
    """A 16-bit scale and 32 signed bytes."""
    blocks = np.frombuffer(raw, dtype=np.dtype([("scale", "<f2"), ("values", "i1", 32)]))
    found: Matrix = blocks["scale"].astype(np.float64)[:, None] * blocks["values"].astype(np.float64)
    return found.ravel()


def _nibbles(packed: Any) -> Matrix:
    """The low halves are the first 16 values of a block, the high halves the last."""
    return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float64)


def _q4_0(raw: bytes) -> Matrix:
    """A 16-bit scale and 32 halves of bytes, 8 standing for zero."""
    blocks = np.frombuffer(raw, dtype=np.dtype([("scale", "<f2"), ("values", "u1", 16)]))
    return (blocks["scale"].astype(np.float64)[:, None] * (_nibbles(blocks["values"]) - 8)).ravel()


def _q4_1(raw: bytes) -> Matrix:
    """A 16-bit scale, a 16-bit minimum and 32 halves of bytes."""
    blocks = np.frombuffer(raw, dtype=np.dtype([("scale", "<f2"), ("least", "<f2"), ("values", "u1", 16)]))
    scaled = blocks["scale"].astype(np.float64)[:, None] * _nibbles(blocks["values"])
    return (scaled + blocks["least"].astype(np.float64)[:, None]).ravel()


_GGUF_KINDS = {
    0: Kind("F32", 1, 4, _plain("<f4")),
    1: Kind("F16", 1, 2, _plain("<f2")),
    2: Kind("Q4_0", 32, 18, _q4_0),
    3: Kind("Q4_1", 32, 20, _q4_1),
    8: Kind("Q8_0", 32, 34, _q8_0),
    28: Kind("F64", 1, 8, _plain("<f8")),
    30: Kind("BF16", 1, 2, _bf16),
}
_SAFE_KINDS = {
    "F64": Kind("F64", 1, 8, _plain("<f8")),
    "F32": Kind("F32", 1, 4, _plain("<f4")),
    "F16": Kind("F16", 1, 2, _plain("<f2")),
    "BF16": Kind("BF16", 1, 2, _bf16),
}


def listing(path: Path) -> tuple[Tensor, ...]:
    """The tensors of a file in its order. Raises TensorError."""
    try:
        with path.open("rb") as file:
            head = file.read(4)
            file.seek(0)
            return _gguf(file) if head == b"GGUF" else _safetensors(file)
    except (OSError, struct.error, ValueError, KeyError, TypeError, OverflowError) as error:
        if isinstance(error, TensorError):
            raise
        raise TensorError(f"{path.name} is no whole GGUF or safetensors file. Fetch it again.") from error


def read(path: Path, tensor: Tensor, rows: int, columns: int) -> Matrix:
    """The first rows and columns of a matrix, at most as many as asked for. Raises TensorError."""
    decode = tensor.kind.decode
    if decode is None or len(tensor.shape) != 2:
        raise TensorError(
            f"{tensor.name} is {tensor.kind.name} {tensor.shape}: only matrices of simple types are read."
        )
    height, width = tensor.shape
    kind = tensor.kind
    if width % kind.values:
        raise TensorError(f"{tensor.name} has {width} columns, no multiple of {kind.values}: the file is damaged.")
    taken = min(rows, height)
    size = taken * width // kind.values * kind.size
    with path.open("rb") as file:
        file.seek(tensor.offset)
        raw = file.read(size)
    if len(raw) < size:
        raise TensorError(f"{path.name} ends within {tensor.name}. Fetch it again.")
    matrix = decode(raw).reshape(taken, width)[:, :columns]
    if not np.isfinite(matrix).all() or not matrix.any():
        raise TensorError(f"{tensor.name} has values that are no numbers, or only zeros. Choose another tensor.")
    return matrix


def _safetensors(file: BinaryIO) -> tuple[Tensor, ...]:
    (size,) = struct.unpack("<Q", file.read(8))
    if size > _LONGEST_HEADER:
        raise TensorError("It is neither GGUF nor safetensors. Give a file of one of these.")
    found = []
    for name, about in json.loads(file.read(size)).items():
        if name == "__metadata__":
            continue
        kind = _SAFE_KINDS.get(about["dtype"], Kind(str(about["dtype"]), 1, 0))
        shape = tuple(int(length) for length in about["shape"])
        found.append(Tensor(name, shape, kind, 8 + size + int(about["data_offsets"][0])))
    return tuple(found)


def _gguf(file: BinaryIO) -> tuple[Tensor, ...]:
    head = read_head(file, {"general.alignment"})
    alignment = int(head.values.get("general.alignment", 32))
    heads = [_gguf_tensor(file) for _ in range(head.tensors)]
    start = -(-file.tell() // alignment) * alignment
    return tuple(Tensor(name, shape, kind, start + offset) for name, shape, kind, offset in heads)


def _gguf_tensor(file: BinaryIO) -> tuple[str, tuple[int, ...], Kind, int]:
    name, (dimensions,) = read_text(file), struct.unpack("<I", file.read(4))
    if dimensions > 8:
        raise TensorError("The GGUF header is damaged. Fetch the file again.")
    lengths = struct.unpack(f"<{dimensions}Q", file.read(8 * dimensions))
    number, offset = struct.unpack("<IQ", file.read(12))
    kind = _GGUF_KINDS.get(number, Kind(f"type {number}", 1, 0))
    return name, tuple(reversed(lengths)), kind, offset
