"""Partial rows that outlive the load host: what the instrument appends is copied to storage in numbered parts."""

import logging
import os
from pathlib import Path

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from observatory.runs.models import Run
from observatory.runs.plain import masked_bytes

NAMES = ("requests.arrow", "power.arrow", "server.arrow")

logger = logging.getLogger(__name__)


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
        _put(f"{self._folder}/{name}.{self._copied[name]:012d}", data)
        self._copied[name] = end


def _put(name: str, data: bytes) -> None:
    """Under that name and no other: what an attempt that broke off has left there goes first."""
    default_storage.delete(name)
    saved = default_storage.save(name, ContentFile(data))
    if saved != name:
        default_storage.delete(saved)
        raise FileExistsError(f"the storage keeps {name} from being replaced")


def _files(where: str) -> list[str]:
    try:
        _, files = default_storage.listdir(where)
    except FileNotFoundError:
        return []
    return files


def _parts(where: str, name: str) -> list[tuple[int, str]]:
    """(first byte, name in storage) of each part, in order: a part is named by where it begins."""
    begins = (file.removeprefix(f"{name}.") for file in _files(where) if file.startswith(f"{name}."))
    return sorted((int(begin), f"{where}/{name}.{begin}") for begin in begins if begin.isdecimal())


def fetch(run: Run, directory: Path, shard: int = 0) -> None:
    """Puts the spools together again from their parts, up to the first byte that is missing."""
    for name in NAMES:
        parts = _parts(folder(run, shard), name)
        if not parts:
            continue
        joined = 0
        with (directory / name).open("wb") as whole:
            for begin, part in parts:
                if begin != joined:
                    logger.warning("%s does not follow on byte %d; what comes before it is kept", part, joined)
                    break
                with default_storage.open(part) as file:
                    joined += whole.write(file.read())


def discard(run: Run) -> None:
    """The parts and all of the other hosts' are of no more use. What cannot be deleted stays: that must not keep a
    run from ending.
    """
    try:
        for name in NAMES:
            for _, part in _parts(folder(run), name):
                default_storage.delete(part)
        for shard in range(1, run.load_hosts):
            where = folder(run, shard)
            for file in _files(where):
                default_storage.delete(f"{where}/{file}")
            default_storage.delete(where)
        for sampling in run.samplings.exclude(power_file=""):
            sampling.power_file.delete()
    except Exception:
        logger.exception("run %s: its partial rows could not be deleted from storage", run.pk)
