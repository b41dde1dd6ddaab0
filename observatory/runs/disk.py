"""A full disk, recognised in whatever error it comes as, and what to do about it."""

import errno
import shutil
import tempfile
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection

#: As SQLite and the operating system say it; PostgreSQL hands on the latter.
_WORDS = ("database or disk is full", "No space left on device", "Disk quota exceeded")


def full(error: BaseException | None) -> bool:
    """Whether ``error`` came of a disk that takes nothing more."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, DatabaseError) and any(words in str(error) for words in _WORDS)


def what_to_do(error: BaseException) -> str:
    """Where to free space, in a sentence of its own."""
    remote = isinstance(error, DatabaseError) and connection.vendor != "sqlite"
    return f"Free space {'on the disk of the database server' if remote else f'at {_fullest()}'}."


def _fullest() -> Path:
    """Of the folders that the application writes to, the one with the least space left."""
    folders = [Path(folder) for folder in (settings.MEDIA_ROOT, settings.VAR_DIR, tempfile.gettempdir())]
    return min((folder for folder in folders if folder.exists()), key=lambda folder: shutil.disk_usage(folder).free)
