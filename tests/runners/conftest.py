from collections.abc import Iterator

import pytest

from tests.services.engine import embedded_engine


@pytest.fixture(scope="session")
def engine() -> Iterator[tuple[str, str]]:
    """(url, model) of a real llama.cpp server."""
    with embedded_engine() as served:
        yield served
