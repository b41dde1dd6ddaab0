"""Huge pages are off while requests are timed, and as they were afterwards."""

import re
from pathlib import Path

from runners.load.hugepages import small_pages


def enabled() -> bool:
    told = re.search(r"^THP_enabled:\s*(\d)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert told is not None
    return told[1] == "1"


def test_huge_pages_are_off_while_it_lasts():
    before = enabled()
    with small_pages():
        assert not enabled()
        with small_pages():
            pass
        assert not enabled()
    assert enabled() is before
