"""Tests by name: lists that say which test proves what stay true."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent


@cache
def _functions(path: str) -> frozenset[str]:
    file = TESTS / path
    if not file.is_file():
        return frozenset()
    return frozenset(node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef))


def missing(names: Iterable[str]) -> list[str]:
    """Of ``path::test`` below this folder those that are not there."""
    return [name for name in names if name.partition("::")[2] not in _functions(name.partition("::")[0])]
