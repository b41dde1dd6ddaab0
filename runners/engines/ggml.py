"""GGUF files read and written by llama.cpp's own library (ggml/include/gguf.h, ggml.h), which lies in xllamacpp.

A wrong call ends the process: this is used in a process of its own (``python -m runners model``).
"""

import ctypes
from collections.abc import Callable, Iterator
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

#: Numbers of ``enum ggml_type``.
TYPES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30,
}  # fmt: skip
_NAMES = {number: name for name, number in TYPES.items()}
#: Numbers that are stored together: a row holds a multiple of them.
BLOCKS = {"Q4_K": 256, "Q6_K": 256, "F32": 1, "F16": 1, "BF16": 1}
_ROOM = 1 << 20


class GgufError(RuntimeError):
    """The file cannot be read or written; the message names it."""


class _ReadOptions(Structure):
    _fields_ = [("no_alloc", c_bool), ("ctx", POINTER(c_void_p))]


class _Memory(Structure):
    _fields_ = [("size", c_size_t), ("buffer", c_void_p), ("no_alloc", c_bool)]


_POINTERS = (
    "gguf_init_from_file", "gguf_init_empty", "ggml_init", "ggml_get_data", "ggml_get_tensor", "ggml_new_tensor",
    "gguf_get_arr_data", "gguf_get_tensor_ne",
)  # fmt: skip
_NUMBERS = ("gguf_find_key", "gguf_get_n_tensors", "ggml_nelements")
_SIZES = ("gguf_get_arr_n", "ggml_quantize_chunk")


def _library() -> ctypes.CDLL:
    from xllamacpp import xllamacpp

    library = ctypes.CDLL(xllamacpp.__file__)
    for names, kind in ((_POINTERS, c_void_p), (_NUMBERS, c_int64), (_SIZES, c_size_t)):
        for name in names:
            getattr(library, name).restype = kind
    for name in ("gguf_get_tensor_name", "gguf_get_val_str", "gguf_get_arr_str"):
        getattr(library, name).restype = c_char_p
    library.gguf_get_val_u32.restype = c_uint32
    library.gguf_get_val_f32.restype = c_float
    library.gguf_write_to_file.restype = c_bool
    return library


@dataclass(frozen=True)
class Tensor:
    """``shape`` as rows and columns."""

    name: str
    kind: str
    shape: tuple[int, ...]
    values: Floats

    @property
    def matrix(self) -> bool:
        """Or one for each of several experts."""
        return len(self.shape) >= 2


class Gguf:
    """A file in memory: its metadata, and its tensors as 32-bit numbers. Raises GgufError."""

    def __init__(self, path: Path) -> None:
        self.library = _library()
        self._memory = c_void_p()
        options = _ReadOptions(False, ctypes.pointer(self._memory))
        self.handle = c_void_p(self.library.gguf_init_from_file(str(path).encode(), options))
        if not self.handle:
            raise GgufError(f"{path} is no whole GGUF file; fetch it again")

    def _key(self, key: str) -> c_int64:
        found = self.library.gguf_find_key(self.handle, key.encode())
        if found < 0:
            raise GgufError(f"the model file says nothing of {key}")
        return c_int64(found)

    def number(self, key: str) -> int:
        return int(self.library.gguf_get_val_u32(self.handle, self._key(key)))

    def fraction(self, key: str) -> float:
        return float(self.library.gguf_get_val_f32(self.handle, self._key(key)))

    def text(self, key: str) -> str:
        return str(self.library.gguf_get_val_str(self.handle, self._key(key)).decode())

    def texts(self, key: str) -> list[str]:
        found = self._key(key)
        count = self.library.gguf_get_arr_n(self.handle, found)
        read = self.library.gguf_get_arr_str
        return [read(self.handle, found, c_size_t(index)).decode() for index in range(count)]

    def numbers(self, key: str) -> list[int]:
        """A list of 32-bit integers."""
        found = self._key(key)
        count = self.library.gguf_get_arr_n(self.handle, found)
        address = self.library.gguf_get_arr_data(self.handle, found)
        return list((ctypes.c_int32 * count).from_address(address))

    def tensors(self, renamed: Callable[[str], str | None]) -> Iterator[Tensor]:
        """Each under its new name; those without one are left out."""
        for index in range(self.library.gguf_get_n_tensors(self.handle)):
            name = self.library.gguf_get_tensor_name(self.handle, c_int64(index))
            new_name = renamed(name.decode())
            if new_name is not None:
                yield self._tensor(c_int64(index), name, new_name)

    def _tensor(self, index: c_int64, name: bytes, new_name: str) -> Tensor:
        library = self.library
        tensor = c_void_p(library.ggml_get_tensor(self._memory, name))
        kind = _NAMES.get(library.gguf_get_tensor_type(self.handle, index), "")
        if not kind:
            raise GgufError(f"{name.decode()} is of a type that is not read; known are {', '.join(TYPES)}")
        count = library.ggml_nelements(tensor)
        lengths = (c_int64 * 4).from_address(library.gguf_get_tensor_ne(self.handle, index))
        dimensions = library.ggml_n_dims(tensor)
        shape = tuple(reversed(lengths[:dimensions]))
        return Tensor(new_name, kind, shape, _decoded(library, tensor, kind, count).reshape(shape))


def _decoded(library: ctypes.CDLL, tensor: c_void_p, kind: str, count: int) -> Floats:
    data = c_void_p(library.ggml_get_data(tensor))
    values = np.empty(count, dtype=np.float32)
    target = c_void_p(values.ctypes.data)
    match kind:
        case "F32":
            ctypes.memmove(target, data, values.nbytes)
        case "F16" | "BF16":
            name = "ggml_fp16_to_fp32_row" if kind == "F16" else "ggml_bf16_to_fp32_row"
            getattr(library, name)(data, target, c_int64(count))
        case _:
            decode = getattr(library, f"dequantize_row_{kind[:-1].lower() + kind[-1]}")
            decode(data, target, c_int64(count))
    return values


def write(source: Gguf, tensors: Iterator[tuple[Tensor, str]], numbers: dict[str, int], path: Path) -> None:
    """A file with the metadata of ``source`` and ``numbers`` in place of its own, each tensor as the type beside it."""
    library = source.library
    target = c_void_p(library.gguf_init_empty())
    library.gguf_set_kv(target, source.handle)
    for key, value in numbers.items():
        library.gguf_set_val_u32(target, key.encode(), c_uint32(value))
    kept = []  # the library holds on to the memory until the file is written
    for tensor, kind in tensors:
        memory = c_void_p(library.ggml_init(_Memory(tensor.values.nbytes + _ROOM, None, False)))
        kept.append(memory)
        library.gguf_add_tensor(target, _encoded(library, memory, tensor, kind))
    written = library.gguf_write_to_file(target, str(path).encode(), c_bool(False))
    for memory in kept:
        library.ggml_free(memory)
    library.gguf_free(target)
    if not written:
        raise GgufError(f"{path} could not be written; is there space?")


def _encoded(library: ctypes.CDLL, memory: c_void_p, tensor: Tensor, kind: str) -> c_void_p:
    number, shape = c_int(TYPES[kind]), tensor.shape
    lengths = (c_int64 * len(shape))(*reversed(shape))
    made = c_void_p(library.ggml_new_tensor(memory, number, c_int(len(shape)), lengths))
    library.ggml_set_name(made, tensor.name.encode())
    values = np.ascontiguousarray(tensor.values, dtype=np.float32)
    columns = shape[-1]
    rows = values.size // columns
    data = c_void_p(library.ggml_get_data(made))
    source = c_void_p(values.ctypes.data)
    library.ggml_quantize_chunk(number, source, data, c_int64(0), c_int64(rows), c_int64(columns), None)
    return made
