from collections.abc import Callable
from typing import Any

import pytest

from runners.load.words import LengthFit
from runners.load.workloads import Context


@pytest.fixture
def context() -> Callable[..., Context]:
    """A context whose tokens are words behind a template of 30 tokens; 9 more for each further turn."""

    def make(**more: Any) -> Context:
        fit = LengthFit(30, 1.0, checked=True, turn_tokens=9)
        usual = {"seed": 0, "salt": "run/stage0", "fit": fit, "count_tokens": lambda text: len(text.split()),
                 "input_tokens": 100, "output_tokens": 16}  # fmt: skip
        return Context(**{**usual, **more})

    return make
