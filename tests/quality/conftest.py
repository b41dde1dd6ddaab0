from pathlib import Path
from typing import Any

import pytest

from tests.browser import browser, chromium
from tests.services.fixtures import database_url, postgres_server, site, sqlite_template

__all__ = ["browser", "chromium", "database_url", "postgres_server", "site", "sqlite_template"]


@pytest.fixture(autouse=True)
def _files(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path / "media"
