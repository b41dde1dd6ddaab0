"""In which order tests begin, what property tests draw and how they are judged, what tests of pages do without."""

import os
from itertools import zip_longest

import pytest
from django.conf import settings as site
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


def pytest_configure() -> None:
    """Each client of a test is a web server that starts: it looks for static files only when it is asked for one."""
    site.WHITENOISE_AUTOREFRESH = True


#: Folders whose tests take long, most of it for engines and workers to start.
LONG = ("whole", "demo", "studies", "scripts", "runs", "schedules")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file of the long ones, then two of the others, and so on: few long ones run at once and none is begun last."""
    paths = sorted({item.path for item in items}, reverse=True)
    long = sorted((path for path in paths if path.parent.name in LONG), key=lambda path: LONG.index(path.parent.name))
    short = [path for path in paths if path.parent.name not in LONG]
    order = [path for group in zip_longest(long, short[::2], short[1::2]) for path in group if path]
    items.sort(key=lambda item: order.index(item.path))
