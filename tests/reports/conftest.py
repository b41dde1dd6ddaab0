from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _files_apart(tmp_path: Path, settings: Any) -> None:
    settings.MEDIA_ROOT = tmp_path
