"""What is in C of the load engine: ``make install`` compiles receiver.c and repeats.c into one library."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PATH = Path(__file__).with_name("libload.so")


def _load() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(_PATH))
    except OSError as error:
        raise ImportError(f"the compiled part of the load engine is missing, run make install: {error}") from None


_library = _load()


def other_version() -> ImportError:
    return ImportError("the compiled part of the load engine is of another version: run make install")


def function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """``result`` and ``arguments`` are types of ctypes. Raises ImportError that says what to do."""
    try:
        found = getattr(_library, name)
    except AttributeError:
        raise other_version() from None
    found.restype, found.argtypes = result, arguments
    return found  # type: ignore[no-any-return]
