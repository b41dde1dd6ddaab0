"""How the tests are run: the long ones first, and what property tests draw."""

import os

import pytest
from hypothesis import HealthCheck, settings

#: What comes out is judged, never how long it took: machines are noisy.
settings.register_profile(
    "observatory",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,
)
settings.load_profile("observatory")

#: Folders whose tests mostly wait; begun last, they would keep everything waiting for one process.
LONG = ("whole", "demo", "studies", "scripts", "runs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(item.path.parent.name) if item.path.parent.name in LONG else len(LONG))
