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


def test_sharing_a_load_is_set_against_as_many_times_one_process():
    def result(*cpu_s: float) -> dict[str, object]:
        stage = {"client": {"cpu_s": sum(cpu_s)}, "metrics": {"output_tokens_per_s": {"mean": 50_000.0}}}
        if len(cpu_s) > 1:
            stage["shards"] = [{"client": {"cpu_s": each}} for each in cpu_s]
        return {"stage": stage, "tokens": 400_000, "verdict": "ok"}

    _, one, two = measure.split_lines([(1, result(4.0)), (2, result(2.0, 2.5))])
    assert one.split() == ["1", "50,000", "10.00", "4.00", "100,000", "100%", "ok"]
    assert two.split() == ["2", "50,000", "11.25", "2.00", "+", "2.50", "160,000", "80%", "ok"]


def test_other_tools_are_set_beside_by_what_they_wrote_and_one_without_a_result_says_what_it_said(
    folder, capsys, monkeypatch, tmp_path
):
    tool = tmp_path / "vllm"
    told = {"p99_ttft_ms": 57.0, "p99_itl_ms": 10.5, "completed": 16}
    asks = f'for a; do case $a in http://*) {folder}/lower_bound "${{a##*:}}" 4 16 16;; esac; done'
    tool.write_text(f"#!/bin/sh\n{asks}\necho '{json.dumps(told)}' > vllm.json\n")
    broken = tmp_path / "guidellm"
    broken.write_text("#!/bin/sh\necho no tokenizer\nexit 3\n")
    for program in (tool, broken):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tools = measure.installed_peers(tmp_path)
    assert [name for name, _ in tools] == ["vllm", "guidellm"]
    measure.closed_loop_rows(folder, (TINY,), tools)
    *_, first, second = capsys.readouterr().out.splitlines()
    assert [*first.split()[:2], first.split()[4], first.split()[6]] == ["tiny", "vllm", "57.000", "10.500"]
    assert "exit 3" in second
    assert "no tokenizer" in second
