"""Rows are gone through a part at a time, from wherever they are kept, and give the same numbers."""

import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from runners.load.records import SCHEMA, Spool
from runners.load.rowfiles import ParquetRows, Rows, SpoolRows, write_parquet
from runners.load.summary import summarise
from runners.load.unsent import RequestSpool
from runners.spec import Load, RunSpec, Slo, Target

SPEC = RunSpec(Target("http://h"), load=Load(levels=(4.0, 8.0), requests=600), slo=Slo(ttft_ms=60))
CHANCE = random.Random(7)


def request(stage: int, index: int) -> dict[str, object]:
    """Some fail, some have several tokens an event, some several choices, some a flag."""
    sent_ns = 10**12 * (stage + 1) + index // 4 * 200_000_000
    offsets = sorted(CHANCE.randrange(40_000_000, 180_000_000) for _ in range(CHANCE.randrange(1, 9)))
    ok = index % 50 != 7
    return {
        "stage": stage, "index": index, "warmup": index < 8, "level": 4.0 * (stage + 1), "due_ns": sent_ns - 1000,
        "sent_ns": sent_ns, "first_token_ns": sent_ns + offsets[0], "last_token_ns": sent_ns + offsets[-1],
        "end_ns": sent_ns + 180_000_001, "outcome": "ok" if ok else "reset", "detail": "" if index % 100 else "cut",
        "flags": ["model_mismatch"] if index % 30 == 3 else [], "retried": index % 40 == 1, "input_tokens": 10,
        "asked_input_tokens": 10, "output_tokens": len(offsets) * (1 + index % 3), "events": len(offsets),
        "event_offsets_ns": offsets, "event_choices": [i % 2 for i in range(len(offsets))] if index % 5 == 0 else None,
    }  # fmt: skip


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rows = [request(stage, index) for stage in (0, 1) for index in range(608)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.fixture(scope="module")
def kept(table, tmp_path_factory) -> list[Rows]:
    """A spool whose middle batch holds rows of both stages, and a Parquet file."""
    folder = tmp_path_factory.mktemp("rows")
    with Spool(folder / "requests.arrow") as spool:
        for row in table.to_pylist():
            spool.append(row)
    write_parquet(table, folder / "requests.parquet")
    return [SpoolRows(folder / "requests.arrow"), ParquetRows(folder / "requests.parquet")]


def test_files_give_the_rows_of_one_stage_or_of_all(kept, table):
    for rows in kept:
        assert rows.num_rows == table.num_rows
        assert rows.columns() == table
        assert rows.columns(["index", "outcome"], 1).to_pylist() == table.select(["index", "outcome"])[608:].to_pylist()
        assert rows.columns(["index"], 2).num_rows == 0


def test_files_give_the_same_summary_as_rows_in_memory(kept, table):
    expected = summarise(table, SPEC)
    stages = expected["stages"]
    assert [stage["planned"] for stage in stages] == [600, 600]
    assert stages[0]["failures"]["reset"]["example"] == ""
    assert stages[0]["metrics"]["itl_ms"]["n"] > stages[0]["metrics"]["event_gap_ms"]["n"] > 500
    assert all(summarise(rows, SPEC) == expected for rows in kept)


def test_of_a_spool_that_was_cut_off_every_whole_batch_is_kept(table, tmp_path):
    whole = tmp_path / "whole.arrow"
    with Spool(whole) as spool:
        for row in table.to_pylist()[:600]:
            spool.append(row)
    (tmp_path / "cut.arrow").write_bytes(whole.read_bytes()[:-1000])
    assert SpoolRows(tmp_path / "cut.arrow").columns() == table[:576]


def test_a_spool_without_a_whole_schema_has_no_rows(tmp_path):
    (tmp_path / "cut.arrow").write_bytes(b"\xff\xff\xff\xff\x00")
    assert SpoolRows(tmp_path / "cut.arrow").columns() == SCHEMA.empty_table()


# memory

WEIGHED = """
import resource, sys
from pathlib import Path
from runners.load.plan import fixed_stages
from runners.load.rowfiles import SpoolRows
from runners.load.summary import summarise_stage
from runners.results import write_results
from runners.spec import Load, RunSpec, Target

spec, out = RunSpec(Target("http://h"), load=Load(levels=(64.0,), requests=100)), Path(sys.argv[1])
rows = SpoolRows(out / "requests.arrow")
stage = summarise_stage(rows, fixed_stages(spec)[0], spec)
write_results(out, {"requests": rows}, {"stages": [stage]})
print(stage["ok"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_bytes(folder: Path, batches: int) -> int:
    """Of a process that adds up and stores 256 requests a batch, four tokens each."""
    folder.mkdir()
    rows = [request(0, index) | {"warmup": False, "outcome": "ok", "event_choices": None} for index in range(256)]
    batch = pa.RecordBatch.from_pylist(
        [row | {"event_offsets_ns": [40_000_000, 50_000_000, 60_000_000, 70_000_000]} for row in rows], schema=SCHEMA
    )
    spool = RequestSpool(folder / "requests.arrow")
    for _ in range(batches):
        spool.append_batch(batch)
    spool.close()
    done = subprocess.run(
        [sys.executable, "-c", WEIGHED, folder], capture_output=True, text=True, timeout=60, check=True
    )
    ok, rss_kb = map(int, done.stdout.split())
    assert ok == 256 * batches
    return rss_kb * 1024


def test_a_summary_holds_a_few_numbers_of_each_request_and_never_its_row(tmp_path):
    """A row alone has 300 bytes in the spool, and over a kilobyte as a Python dict."""
    few, many = peak_bytes(tmp_path / "few", 20), peak_bytes(tmp_path / "many", 220)
    assert (many - few) / (200 * 256) < 600
