import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, kib: int, files: int = 1000) -> Iterator[Path]:
    """``folder`` as a file system of so many KiB, for so many files."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k,nr_inodes={files + 1}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, timeout=10).returncode:
        if os.environ.get("REQUIRE_ALL") == "1":
            pytest.fail("mounting a small tmpfs needs root")
        pytest.skip("mounting a small tmpfs needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=10)
