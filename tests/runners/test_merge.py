"""What several load processes left, as one set of results."""

from dataclasses import replace

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from runners.load.calibrate import Calibration
from runners.load.judgement import Client
from runners.load.plan import fixed_stages
from runners.load.summary import summarise, summarise_stage
from runners.merge import Part, merge
from runners.results import write_results
from runners.spec import Load, RunSpec, Shard, Target
from tests.runners.load.test_summary import closed, table

SPEC = RunSpec(Target("http://x"), load=Load(levels=(2.0,), requests=80), shard=Shard(2))
CALIBRATED = Calibration("concurrency", 1, 1000.0, None, None, None, busy_share=0.5, cpu_us_per_event=9.0)


@pytest.fixture
def parts(tmp_path):
    found = []
    for index, busy_share in enumerate((0.5, 0.95)):
        spec = replace(SPEC, shard=Shard(2, index))
        rows = table([row | {"index": 2 * number + index} for number, row in enumerate(closed(1, 40))])
        client = Client(busy_share=busy_share, calibration=CALIBRATED)
        stage = summarise_stage(rows, fixed_stages(spec)[0], spec, client=client)
        facts = {"clock": "kernel", "ended_at": "2026-11-01T00:00:00+00:00"}
        folder = tmp_path / str(index)
        folder.mkdir()
        write_results(folder, {"requests": rows}, summarise(rows, spec, [stage], **facts))
        found.append(Part(index, folder))
    return found


def test_a_shard_at_its_limit_is_named_once_with_the_rate_that_it_could_have_held(parts, tmp_path):
    (stage,) = merge(SPEC, parts, tmp_path)["stages"]
    assert stage["verdict"] == "client_limited"
    (text,) = (item["text"] for item in stage["reasons"] if item["code"] == "client_busy")
    assert text.startswith("load process 1: the load generator was busy 95%")
    assert text.endswith("it can hold about 69 events/s")


def test_the_rows_of_all_shards_make_one_stage(parts, tmp_path):
    (stage,) = merge(SPEC, parts, tmp_path)["stages"]
    assert (stage["planned"], stage["ok"]) == (80, 80)
    rows = pq.read_table(tmp_path / "requests.parquet")
    assert pc.sum(rows["shard"]).as_py() == 40
    assert sorted(rows["index"].to_pylist()) == list(range(80))
