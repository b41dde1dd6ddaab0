"""A folder of its own for derived models: made once for all tests of this run."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def models_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def cache(models_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VAR_DIR", str(models_folder))
    return models_folder / "derived-models"
