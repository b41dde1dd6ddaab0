from collections.abc import Iterator

import pytest

from runners.engines.packaged import MODEL_NAME
from tests.services.engine import embedded_engine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """(url, model) of a real llama.cpp server."""
    with embedded_engine(tmp_path_factory.mktemp("engine")) as url:
        yield url, MODEL_NAME
