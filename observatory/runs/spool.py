"""Partial rows that outlive the load host: what the instrument appends is copied to storage in numbered parts."""

import os
from pathlib import Path

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from observatory.runs.models import Run
from observatory.runs.plain import masked_bytes

NAMES = ("requests.arrow", "power.arrow", "server.arrow")


def folder(run: Run, shard: int = 0) -> str:
    """Where in storage the files of this try lie; those of other load hosts are in folders of their own beneath."""
    return f"runs/{run.pk}/{run.epoch}" + (f"/shard-{shard}" if shard else "")


class Copier:
    """Copies newly appended bytes of the spools in ``directory``, with the secret masked."""

    def __init__(self, run: Run, directory: Path, secret: str, shard: int = 0) -> None:
        self._folder = folder(run, shard)
        self._directory = directory
        self._secret = secret
        self._copied = dict.fromkeys(NAMES, 0)
        self._parts = dict.fromkeys(NAMES, 0)

    def copy(self) -> None:
        """May be called at any time. Raises OSError when the storage takes nothing; the next call tries again."""
        for name in NAMES:
            self._copy(name)

    def _copy(self, name: str) -> None:
        path = self._directory / name
        if not path.exists():
            return
        # A secret may lie across the cut: the last bytes wait, and reading starts as far before the cut.
        margin = len(self._secret.encode())
        begin = max(0, self._copied[name] - margin)
        with path.open("rb") as file:
            end = os.fstat(file.fileno()).st_size - margin
            if end <= self._copied[name]:
                return
            file.seek(begin)
            data = masked_bytes(file.read(end + margin - begin), self._secret)
        data = data[self._copied[name] - begin : end - begin]
        default_storage.save(f"{self._folder}/{name}.{self._parts[name]:06d}", ContentFile(data))
        self._copied[name] = end
        self._parts[name] += 1


def _files(where: str) -> list[str]:
    try:
        _, files = default_storage.listdir(where)
    except FileNotFoundError:
        return []
    return [f"{where}/{file}" for file in sorted(files)]


def _parts(where: str, name: str) -> list[str]:
    return [file for file in _files(where) if file.startswith(f"{where}/{name}.")]


def fetch(run: Run, directory: Path, shard: int = 0) -> None:
    """Puts the spools together again from their parts."""
    for name in NAMES:
        parts = _parts(folder(run, shard), name)
        if not parts:
            continue
        with (directory / name).open("wb") as joined:
            for part in parts:
                with default_storage.open(part) as file:
                    joined.write(file.read())


def discard(run: Run) -> None:
    """The parts, and everything of the other load hosts: what was made of it is stored elsewhere."""
    for name in NAMES:
        for part in _parts(folder(run), name):
            default_storage.delete(part)
    for shard in range(1, run.load_hosts):
        for file in _files(folder(run, shard)):
            default_storage.delete(file)
        default_storage.delete(folder(run, shard))
