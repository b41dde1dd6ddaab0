"""Uploaded workload files: kept when the instrument's own reader takes them, found by the names in a workload."""

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.files import File
from django.db.models import Sum
from django.utils.text import get_valid_filename

from observatory.benchmarks.models import Benchmark, WorkloadFile
from runners.spec import SpecError, Workload
from runners.workload_files import FileKind, look, uses

_MB = 1_000_000
_TOO_LARGE = "It is larger than one file may be (WORKLOAD_FILE_MB). Send a part of it."
_FULL = "There is no more room for workload files (WORKLOAD_FILES_MB). Delete some that no benchmark uses."


def keep(data: File, name: str, kind: str, user: User | None) -> WorkloadFile:  # type: ignore[type-arg]
    """The stored file; an empty ``name`` is that of the upload. Raises ValidationError that says what to change, and
    keeps nothing then.
    """
    name = name or get_valid_filename(Path(data.name or "file").name)[-100:]
    made = WorkloadFile(name=name, kind=kind, created_by=user, size_bytes=0)
    made.full_clean(exclude=("file", "sha256", "facts"))
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        made.size_bytes, made.sha256 = _copy(data, path)
        made.facts = _facts(path, FileKind(kind))
        with path.open("rb") as stored:
            made.file.save(name, File(stored), save=False)
    made.save()
    return made


def _copy(data: File, path: Path) -> tuple[int, str]:  # type: ignore[type-arg]
    """(bytes, SHA-256). Raises ValidationError for a file that is too large."""
    held = WorkloadFile.objects.aggregate(total=Sum("size_bytes"))["total"] or 0
    most = settings.WORKLOAD_FILE_MB * _MB
    left = settings.WORKLOAD_FILES_MB * _MB - held
    size, digest = 0, hashlib.sha256()
    with path.open("wb") as copy:
        for chunk in data.chunks():
            size += copy.write(chunk)
            digest.update(chunk)
            if size > min(most, left):
                raise ValidationError({"file": _TOO_LARGE if size > most else _FULL})
    return size, digest.hexdigest()


def _facts(path: Path, kind: FileKind) -> dict[str, float]:
    try:
        return look(str(path), kind)
    except SpecError as error:
        words = str(error).removeprefix("workload.source.file: ").replace(str(path), path.name)
        raise ValidationError({"file": f"{words[:1].upper()}{words[1:].rstrip('.')}."}) from None


def found(workload: Workload) -> dict[str, WorkloadFile]:
    """The files that a workload names. Raises SpecError for one that was not uploaded, or is of another kind.

    Nothing else is ever read: a name is never a path on a load host.
    """
    named = uses(workload)
    known = {file.name: file for file in WorkloadFile.objects.filter(name__in={use.name for use in named})}
    for use in named:
        if use.name not in known:
            raise SpecError(
                f"{use.field}: there is no workload file {use.name!r}; upload it first, or name one that is there"
            )
        if known[use.name].kind != use.kind:
            raise SpecError(f"{use.field}: {use.name} holds {known[use.name].kind}; {use.kind} are needed here")
    return known


def users(file: WorkloadFile) -> list[Benchmark]:
    """The benchmarks that name a file."""
    return [item for item in Benchmark.objects.order_by("name") if file.name in _names(item)]


def _names(benchmark: Benchmark) -> set[str]:
    try:
        return {use.name for use in uses(benchmark.asked_workload)}
    except SpecError:
        return set()
