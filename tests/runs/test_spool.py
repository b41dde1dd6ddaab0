import errno
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, default_storage

from observatory.benchmarks.models import Benchmark
from observatory.runs import ingest, spool, states
from observatory.runs.models import Run
from runners.load.records import SCHEMA, Spool, read_spool
from tests.services.site import Site

Make = Callable[..., Benchmark]
KEY = "sk-a-secret-of-some-length"


def claimed(make: Make) -> Run:
    run = states.claim(states.queue(make(), Run.Trigger.PAGE).pk, "w")
    assert run
    return run


def row(index: int, detail: str = "") -> dict[str, object]:
    return {"stage": 0, "index": index, "warmup": False, "outcome": "ok", "detail": detail}


def test_parts_join_to_what_the_instrument_wrote(site: Site, benchmark: Make, tmp_path: Path) -> None:
    run = claimed(benchmark)
    copier = spool.Copier(run, tmp_path, "")
    copier.copy()
    with Spool(tmp_path / "requests.arrow") as rows:
        for index in range(30):
            rows.append(row(index))
            if index % 10 == 0:
                rows.flush()
                copier.copy()
                copier.copy()
    copier.copy()
    joined = tmp_path / "joined"
    joined.mkdir()
    spool.fetch(run, joined)
    assert (joined / "requests.arrow").read_bytes() == (tmp_path / "requests.arrow").read_bytes()
    spool.discard(run)
    assert default_storage.listdir(spool.folder(run)) == ([], [])


def test_a_secret_is_masked_even_across_the_cut_of_two_parts(site: Site, benchmark: Make, tmp_path: Path) -> None:
    run = claimed(benchmark)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([row(i, f"denied {KEY}") for i in range(3)], schema=SCHEMA))
    whole = sink.getvalue().to_pybytes() + b" " * len(KEY)
    copier = spool.Copier(run, tmp_path, KEY)
    for end in range(0, len(whole) + 1, 7):
        (tmp_path / "requests.arrow").write_bytes(whole[:end])
        copier.copy()
    joined = tmp_path / "joined"
    joined.mkdir()
    spool.fetch(run, joined)
    data = (joined / "requests.arrow").read_bytes()
    assert KEY.encode() not in data
    assert not any(KEY[:12].encode() in data[i : i + 12] for i in range(0, len(data), 1))
    assert read_spool(data)["detail"].to_pylist() == ["denied " + "*" * len(KEY)] * 3


def test_a_lost_run_keeps_the_rows_that_reached_storage(site: Site, benchmark: Make, tmp_path: Path) -> None:
    run = claimed(benchmark)
    copier = spool.Copier(run, tmp_path, "")
    rows = Spool(tmp_path / "requests.arrow")
    for index in range(5):
        rows.append(row(index))
    rows.append({**row(5), "outcome": "timeout_idle"})
    rows.append({**row(6), "warmup": True})
    rows.flush()
    copier.copy()
    Run.objects.update(lease_expires_at="2020-01-01T00:00Z")
    assert ingest.salvage(run)
    run.refresh_from_db()
    assert (run.status, run.reason_code, run.valid) == ("lost", "worker_lost", False)
    stage = run.stages.get()
    assert (stage.planned, stage.ok, stage.failed, stage.verdict) == (6, 5, 1, "interrupted")
    assert stage.failures["timeout_idle"]["count"] == 1
    assert sorted(default_storage.listdir(spool.folder(run))[1]) == ["requests.parquet"]


def test_a_lost_run_that_stored_nothing_is_lost_all_the_same(site: Site, benchmark: Make) -> None:
    run = claimed(benchmark)
    Run.objects.update(lease_expires_at="2020-01-01T00:00Z")
    assert ingest.salvage(run)
    run.refresh_from_db()
    assert (run.status, run.summary, run.requests_file.name) == ("lost", None, "")
    assert not ingest.salvage(run)


def test_a_copy_that_broke_off_half_way_is_made_anew_and_costs_no_row(
    site: Site, benchmark: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = claimed(benchmark)
    copier = spool.Copier(run, tmp_path, "")
    rows = Spool(tmp_path / "requests.arrow")
    save = FileSystemStorage._save  # type: ignore[attr-defined]

    def full(self: FileSystemStorage, name: str, content: ContentFile) -> str:
        data = content.read()
        save(self, name, ContentFile(data[: len(data) // 2]))
        raise OSError(errno.ENOSPC, "No space left on device")

    for step in range(4):
        for index in range(50):
            rows.append(row(50 * step + index, "some words of its own"))
        rows.flush()
        if step == 1:
            with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
                patch.setattr(FileSystemStorage, "_save", full)
                copier.copy()
        copier.copy()
    joined = tmp_path / "joined"
    joined.mkdir()
    spool.fetch(run, joined)
    assert read_spool(joined / "requests.arrow")["index"].to_pylist() == list(range(200))


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_missing_or_short_part_ends_the_rows_there(site: Site, benchmark: Make, tmp_path: Path, damage: str) -> None:
    run = claimed(benchmark)
    copier = spool.Copier(run, tmp_path, "")
    rows = Spool(tmp_path / "requests.arrow")
    for index in range(3):
        rows.append(row(index))
        rows.flush()
        copier.copy()
    part = Path(default_storage.path(sorted(default_storage.listdir(spool.folder(run))[1])[1]))
    part = Path(default_storage.path(spool.folder(run))) / part.name
    data = part.read_bytes()
    part.unlink()
    if damage == "short":
        part.write_bytes(data[:-100])
    joined = tmp_path / "joined"
    joined.mkdir()
    spool.fetch(run, joined)
    assert read_spool(joined / "requests.arrow")["index"].to_pylist() == [0]


def test_rows_spliced_from_two_batches_are_not_believed(tmp_path: Path) -> None:
    ends = []
    with Spool(tmp_path / "requests.arrow") as rows:
        for batch in range(4):
            for index in range(40):
                rows.append(row(40 * batch + index, f"detail {index}") | {"flags": ["retried"]})
            rows.flush()
            ends.append((tmp_path / "requests.arrow").stat().st_size)
    data = (tmp_path / "requests.arrow").read_bytes()
    for cut in range(200, ends[1] - ends[0], 200):
        table = read_spool(data[: ends[0] + cut] + data[ends[1] :])
        table.validate(full=True)
        assert table["index"].to_pylist()[:40] == list(range(40))
