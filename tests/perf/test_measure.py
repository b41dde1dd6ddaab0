"""The comparison with the C client compiles, runs, and tells the truth of its server: it is used by hand, and must not
rot meanwhile.
"""

import json
import os
import re
import shutil

import pytest

from tests.perf import measure

TINY = measure.Case("tiny", 4, 16, 16, 20, 5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if shutil.which("cc") is None:
        if os.environ.get("REQUIRE_ALL") == "1":
            pytest.fail("cc is needed for the timing server: apt install gcc libc6-dev")
        pytest.skip("needs cc: apt install gcc libc6-dev")
    found = tmp_path_factory.mktemp("perf")
    measure.build(found)
    return found


def test_the_lower_bound_and_the_engine_are_set_against_the_servers_own_timing(folder, capsys):
    measure.closed_loop_rows(folder, (TINY,))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("tiny")]
    assert [re.sub(r"[\d.-]", "", "".join(row)) for row in rows] == ["tinylowerbound", "tinyengine"]
    floor, engine = ([float(part) for part in row if re.fullmatch(r"-?[\d.]+", part)] for row in rows)
    assert floor[1] == 1
    assert min(floor[0], engine[0], engine[1]) > 0
    assert all(ttft_ms > 20 and gap_ms > 2 for _, _, ttft_ms, _, gap_ms, *_ in (floor, engine))


def test_the_server_counts_what_the_tool_sent(folder):
    with measure.timing_server(folder, TINY) as (port, path):
        result = measure.run_lower_bound(folder, TINY, port)
    truth = json.loads(path.read_text())
    assert result["tokens"] == TINY.requests * TINY.tokens
    assert truth["ttft_ms"]["p50"] >= TINY.ttft_ms
