"""Model files whose matrices may be looked at: those in MODELS_DIR, and the model of the embedded engine.

A file is named, never given as a path.
"""

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from django.conf import settings

from observatory.theory import tensors
from observatory.theory.calculator import Refused, refuse
from observatory.theory.formats import Matrix
from runners.engines.packaged import model_path

ENDINGS = (".gguf", ".safetensors")
MOST_BYTES = 2_000_000_000


def folder() -> Path:
    """Where model files are put."""
    return Path(settings.MODELS_DIR)


def files() -> dict[str, Path]:
    """By name, what may be read."""
    found = {path.name: path for path in sorted(folder().glob("*")) if path.suffix in ENDINGS and path.is_file()}
    try:
        embedded = model_path()
    except FileNotFoundError:
        return found
    return {embedded.name: embedded} | found


def version(file: str) -> int:
    """Changes when a file of that name is replaced."""
    path = files().get(file) if file else None
    return path.stat().st_mtime_ns if path else 0


def keep(name: str, chunks: Iterable[bytes]) -> str:
    """Stores an upload and gives the name that it got. Raises Refused, and then nothing is stored."""
    kept = re.sub(r"[^\w.-]+", "-", Path(name).name).lstrip(".-")[-150:]
    if Path(kept).suffix not in ENDINGS:
        raise refuse("file", f'"{kept}" is no model file.', "Choose a file that ends with .gguf or .safetensors.")
    folder().mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=folder(), suffix=".part") as file:
        _fill(file, chunks)
        try:
            tensors.listing(Path(file.name))
        except tensors.TensorError as error:
            raise refuse("file", f"{kept} is no whole GGUF or safetensors file.", "Fetch it again.") from error
        (folder() / kept).unlink(missing_ok=True)
        os.link(file.name, folder() / kept)
    return kept


def _fill(file: IO[bytes], chunks: Iterable[bytes]) -> None:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MOST_BYTES:
            raise refuse("file", "The file is too large to upload.", f"Put it into {folder()} on the server.")
        file.write(chunk)
    file.flush()


def names() -> tuple[str, ...]:
    return tuple(files())


def matrix(file: str, tensor: str, rows: int, columns: int) -> Matrix:
    """The beginning of a matrix of a file; without a tensor's name, of the first that can be read. Raises Refused."""
    path = files().get(file)
    if path is None:
        raise refuse("file", f'There is no model file "{file}".', _known(names(), f"Put one into {folder()}."))
    try:
        listed = {item.name: item for item in tensors.listing(path) if item.readable and min(item.shape) > 1}
        if not listed:
            raise refuse("file", "It has no matrix of a simple type.", "F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are read.")
        if tensor and tensor not in listed:
            near = get_close_matches(tensor, listed, 5, 0.3) or list(listed)[:5]
            raise refuse("tensor", f'The file has no readable matrix "{tensor}".', _known(tuple(near), ""))
        return tensors.read(path, listed[tensor or next(iter(listed))], rows, columns)
    except tensors.TensorError as error:
        raise _unreadable(error) from error


def _unreadable(error: tensors.TensorError) -> Refused:
    problem, _, fix = str(error).partition(". ")
    return refuse("file", f"{problem.rstrip('.')}.", fix or "Choose another tensor.")


def _known(found: tuple[str, ...], otherwise: str) -> str:
    return f"Choose such as {', '.join(found[:5])}." if found else otherwise
