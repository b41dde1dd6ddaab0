"""``python -m runners bench`` and ``probe`` as people run them, against a real engine and against what can go wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

import pyarrow.parquet as pq
import pytest

from runners.bench import Bench
from runners.load.records import read_spool
from runners.load.report import table
from runners.load.target import base_endpoint, destination
from runners.probe import Page, identify
from runners.progress import JsonProgress
from runners.spec import Load, Power, RunSpec, Target, Timeouts
from tests.services.bad_streams import STREAMS
from tests.services.engine import counted
from tests.services.misbehaving import Ledger, good, hang_mid_stream, json_body, serving, silent
from tests.services.small_disk import small_disk
from tests.services.tls import Authority, serving_tls

ROOT = Path(__file__).resolve().parents[2]
QUICK = (
    "--power",
    "none",
    "--calibrate",
    "0",
    "--first-byte-timeout",
    "0.5",
    "--idle-timeout",
    "0.5",
    "--total-timeout",
    "3",
)


def runners(*arguments: str, timeout_s: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runners", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, env={**os.environ, **environment}, check=False,
    )  # fmt: skip


def bench(url: str, out: Path, *more: str, model: str = "m", **environment: str):
    done = runners(
        "bench", "--url", url, "--model", model, "--out", str(out), "--progress", "json", *more, **environment
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    path = out / "summary.json"
    return done, lines, json.loads(path.read_text()) if path.exists() else None


@pytest.fixture(scope="module")
def measured(engine, tmp_path_factory):
    url, model = engine
    out = tmp_path_factory.mktemp("bench")
    before = counted(url, "tokens_predicted_total")
    done, lines, summary = bench(
        url, out, "--concurrency", "1,4", "--requests", "12", "--input-tokens", "64", "--output-tokens", "24",
        "--slo", "ttft_ms=60000", "--usd-per-hour", "0.5", "--idle", "1", model=model,
    )  # fmt: skip
    predicted = counted(url, "tokens_predicted_total") - before
    return done, lines, summary, pq.read_table(out / "requests.parquet"), predicted


def test_a_run_on_a_real_engine_is_valid_and_complete(measured):
    done, lines, summary, rows, _ = measured
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines[-1] == {"end": True, "exit": 0, "valid": True, "code": "", "text": ""}
    assert [stage["ok"] for stage in summary["stages"]] == [12, 12]
    assert summary["clock"] == "kernel"
    assert summary["target"]["engine"] == "llama.cpp"
    assert rows.num_rows == 24
    for stage in summary["stages"]:
        keys = {
            "ttft_ms",
            "tpot_ms",
            "itl_ms",
            "e2e_ms",
            "request_per_s",
            "output_tokens_per_s",
            "goodput_per_s",
            "wh_per_query",
        }
        assert keys | {"usd_per_mtok_output", "j_per_output_token"} <= set(stage["metrics"])


def test_the_clients_own_error_is_measured_at_each_load_and_kept(measured):
    _, _, summary, *_ = measured
    for stage in summary["stages"]:
        calibration = stage["client"]["calibration"]
        assert calibration["value"] == stage["load"]["value"]
        assert 0 <= calibration["event_error_ms"]["p50"] < 1


def test_our_output_tokens_equal_the_servers_own_counter(measured):
    *_, rows, predicted = measured
    checks = 2 * 2  # two requests of two tokens before the run
    assert sum(rows["output_tokens"].to_pylist()) + checks == predicted


def test_the_servers_own_counts_are_exactly_ours_stage_by_stage(measured):
    _, _, summary, rows, _ = measured
    assert summary["server"]["engine"] == "llama.cpp"
    for stage in summary["stages"]:
        agreement = {item["key"]: item for item in stage["server"]["agreement"]}
        assert set(agreement) == {"computed_tokens", "cached_tokens", "generated_tokens"}
        assert {item["verdict"] for item in agreement.values()} == {"ok"}, agreement
        ours = sum(row["output_tokens"] for row in rows.to_pylist() if row["stage"] == stage["index"])
        assert agreement["generated_tokens"]["server"] == ours == 12 * 24
        assert 0 < stage["server"]["gauges"]["requests_running"]["max"] <= stage["load"]["value"]
    assert len(summary["server"]["marks_ns"]) == 3


def test_others_on_the_same_server_are_noticed_and_do_not_make_the_run_invalid(engine, tmp_path):
    url, model = engine
    body = json.dumps({"model": model, "prompt": "Tell me.", "max_tokens": 7, "ignore_eos": True}).encode()
    of_checks, of_some_requests = 2 * 2, 3 * 8
    under_load = counted(url, "tokens_predicted_total") + of_checks + of_some_requests

    def ask_amid_the_load() -> None:
        while counted(url, "tokens_predicted_total") < under_load:
            time.sleep(0.05)
        urlopen(Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"}))

    other = Thread(target=ask_amid_the_load, daemon=True)
    other.start()
    done, _, summary = bench(
        url, tmp_path, "--duration", "5", "--warmup", "0", "--input-tokens", "32", "--output-tokens", "8", *QUICK[:4],
        model=model,
    )  # fmt: skip
    other.join(20)
    assert done.returncode == 0, done.stdout
    stage = summary["stages"][0]
    assert "other_traffic" in {item["code"] for item in stage["reasons"]}
    agreement = {item["key"]: item for item in stage["server"]["agreement"]}
    assert agreement["generated_tokens"]["difference"] == 7


def test_our_tpot_agrees_with_the_servers_and_our_ttft_is_never_below_its_prompt_time(measured):
    *_, rows, _ = measured
    for stage in (0, 1):
        ours, theirs = [], []
        for row in rows.to_pylist():
            if row["stage"] == stage:
                ours.append((row["last_token_ns"] - row["first_token_ns"]) / 1e6 / (row["output_tokens"] - 1))
                theirs.append(row["server_decode_ms"] / (row["output_tokens"] - 1))
                assert (row["first_token_ns"] - row["sent_ns"]) / 1e6 >= row["server_prompt_ms"]
        assert sum(ours) == pytest.approx(sum(theirs), rel=0.05)


def test_prompts_have_the_length_that_was_asked_for_and_share_no_cached_prefix(measured):
    *_, rows, _ = measured
    assert rows["input_tokens"].to_pylist() == pytest.approx([64] * 24, abs=1)
    assert max(rows["cached_tokens"].to_pylist()) <= 30  # the chat template alone


def test_completions_work_as_well_as_chat(engine, tmp_path):
    url, model = engine
    done, _, summary = bench(
        url,
        tmp_path,
        "--dialect",
        "openai-completions",
        "--requests",
        "3",
        "--output-tokens",
        "8",
        *QUICK[:4],
        model=model,
    )
    assert done.returncode == 0, done.stdout
    assert summary["stages"][0]["metrics"]["output_tokens"]["mean"] == 8


def test_an_open_loop_sends_on_its_schedule(engine, tmp_path):
    url, model = engine
    done, _, summary = bench(
        url, tmp_path, "--rate", "4", "--arrivals", "constant", "--duration", "3", "--input-tokens", "40",
        "--output-tokens", "4", *QUICK[:4], model=model,
    )  # fmt: skip
    assert {item["code"] for item in summary["stages"][0]["reasons"]} <= {
        "client_lag", "client_busy", "window_whole"
    }, done.stdout  # fmt: skip
    rows = sorted(pq.read_table(tmp_path / "requests.parquet")["due_ns"].to_pylist())
    assert {b - a for a, b in pairwise(rows)} == {250_000_000}
    assert summary["stages"][0]["planned"] == 12


def test_an_interrupted_run_keeps_its_rows_and_says_so(engine, tmp_path):
    url, model = engine
    command = [sys.executable, "-m", "runners", "bench", "--url", url, "--model", model, "--out", str(tmp_path)]
    command += ["--concurrency", "2", "--duration", "60", "--output-tokens", "16", "--progress", "json", *QUICK[:4]]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if json.loads(line).get("ok", 0) >= 1:
            process.send_signal(signal.SIGINT)
            break
    started = time.monotonic()
    last = json.loads(process.stdout.read().splitlines()[-1])
    assert process.wait(20) == 130
    assert time.monotonic() - started < 10
    assert last["code"] == "interrupted"
    summary = json.loads((tmp_path / "summary.json").read_text())
    stage = summary["stages"][0]
    assert stage["ok"] >= 1
    assert stage["cancelled"] == 2
    assert not summary["valid"]


def test_a_run_stopped_while_the_endpoint_hangs_in_the_check_ends_at_once(tmp_path):
    with serving({"m": lambda wire: time.sleep(20)}) as server:
        command = [
            sys.executable,
            "-m",
            "runners",
            "bench",
            "--url",
            server.url,
            "--model",
            "m",
            "--out",
            str(tmp_path),
        ]
        process = subprocess.Popen(
            [*command, "--power", "none", "--progress", "json"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 130
        process.stdout.close()
    assert [line["phase"] for line in lines] == ["check", "check"]


# what can go wrong


def test_a_closed_port_is_not_usable_and_the_words_say_what_to_do(tmp_path):
    done, lines, summary = bench("http://127.0.0.1:9", tmp_path, *QUICK)
    assert done.returncode == 3
    assert lines[-1]["code"] == "connect_refused"
    assert "Start the server" in lines[-1]["text"]
    assert summary is None


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://no-such-host.invalid:80", "dns_error"),
        ("http://169.254.169.254/", "policy_blocked"),
        ("http://user:pass@127.0.0.1:1/", "bad_url"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_words(tmp_path, url, code):
    done, lines, _ = bench(url, tmp_path, *QUICK)
    assert done.returncode == 3
    assert lines[-1]["code"] == code
    assert lines[-1]["text"]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (json_body({"error": {"message": "bad key"}}, "401 Unauthorized"), "auth_error"),
        (json_body({"error": {"message": "no such model"}}, "404 Not Found"), "http_error"),
        (json_body({"error": {"message": "slow down"}}, "429 Too Many Requests"), "http_error"),
        (json_body(b"<h1>oops</h1>", "500 Internal Server Error", "text/html"), "http_error"),
        (json_body(b"<html>a web site</html>", "200 OK", "text/html"), "bad_content_type"),
        (silent, "timeout_first_byte"),
        (hang_mid_stream, "timeout_idle"),
        (STREAMS["non_json_data"].script, "parse_error"),
        (STREAMS["json_truncated_line"].script, "parse_error"),
        (STREAMS["sse_invalid_utf8"].script, "decode_error"),
        (STREAMS["sse_line_200kB/5 MB"].script, "too_large"),
        (STREAMS["done_and_finish_missing"].script, "truncated"),
        (STREAMS["error_event_mid"].script, "inband_error"),
    ],
)
def test_an_endpoint_that_does_not_answer_as_it_must_is_not_usable(tmp_path, script, code):
    with serving({"m": script}) as server:
        done, lines, _ = bench(server.url, tmp_path, *QUICK)
    assert done.returncode == 3
    assert lines[-1]["code"] == code
    assert len(lines[-1]["text"]) > 20


def test_failures_in_the_middle_make_the_run_invalid_and_stand_in_the_summary(tmp_path):
    calls = []

    def every_other(wire):
        calls.append(1)
        (good if len(calls) <= 4 or len(calls) % 2 else json_body({"error": {"message": "overloaded"}}, "503 Busy"))(
            wire
        )

    with serving({"m": every_other}) as server:
        done, lines, summary = bench(server.url, tmp_path, "--requests", "20", *QUICK)
    stage = summary["stages"][0]
    assert done.returncode == 4
    assert stage["planned"] == 20 == stage["ok"] + stage["failed"]
    assert stage["failures"]["http_error"]["example"] == "503 overloaded"
    assert "failed" in lines[-1]["text"]


def test_a_server_that_dies_ends_the_run_with_every_planned_request_counted(tmp_path):
    calls = []

    def dies(wire):
        calls.append(1)
        if len(calls) > 8:
            server.close()
        good(wire)

    with serving({"m": dies}) as server:
        done, _, summary = bench(server.url, tmp_path, "--requests", "200", *QUICK)
    stage = summary["stages"][0]
    assert done.returncode == 4
    assert stage["planned"] == 200 == stage["ok"] + stage["failed"] + stage["not_sent"]
    assert stage["not_sent"] > 100


def test_a_run_whose_time_is_over_stops_in_order_and_counts_every_planned_request(tmp_path):
    def slow(wire):
        time.sleep(0.05)
        good(wire)

    with serving({"m": slow}) as server:
        done, _, summary = bench(
            server.url, tmp_path, "--concurrency", "2,4", "--requests", "400", "--run-timeout", "1.5", *QUICK
        )
    (stage,) = summary["stages"]
    assert done.returncode == 4
    assert stage["ok"] >= 2
    assert stage["planned"] == 400 == stage["ok"] + stage["cancelled"] + stage["not_sent"]
    assert "the stage was stopped: run_timeout." in stage["reasons"][0]["text"]
    assert "stages_not_started" in {item["code"] for item in summary["reasons"]}


def test_a_search_takes_no_stage_that_the_time_limit_cut_for_a_load_that_fails(tmp_path):
    def slow(wire):
        time.sleep(0.05)
        good(wire)

    with serving({"m": slow}) as server:
        _, _, summary = bench(
            server.url, tmp_path, "--find", "slo", "--slo", "ttft_ms=60000", "--concurrency", "1", "--requests", "100",
            "--run-timeout", "0.5", *QUICK,
        )  # fmt: skip
    assert [stage["verdict"] for stage in summary["stages"]] == ["failed"]
    assert summary["max_load_under_slo"] is None
    assert not summary["valid"]


def test_a_refused_convenience_is_left_out_and_said(tmp_path):
    answers = []

    def strict(wire):
        body = server.requests[-1]
        answers.append(body)
        refusal = json_body({"error": {"message": "unknown field ignore_eos"}}, "400 Bad Request")
        (refusal if "ignore_eos" in body else good)(wire)

    with serving({"m": strict}) as server:
        done, _, summary = bench(server.url, tmp_path, "--requests", "10", *QUICK)
    assert done.returncode == 0, done.stdout
    assert summary["target"]["omitted_fields"] == ["ignore_eos"]


@pytest.fixture
def of_96_kib(tmp_path):
    with small_disk(tmp_path, 96) as folder:
        yield folder


def test_a_disk_that_fills_in_the_middle_stops_the_run_and_keeps_what_was_written(of_96_kib):
    with serving({"m": good}) as server:
        done, lines, _ = bench(server.url, of_96_kib, "--duration", "30", *QUICK)
    assert done.returncode == 4
    assert lines[-1]["code"] == "disk_full"
    kept = read_spool(of_96_kib / "requests.arrow").num_rows
    assert kept > 0
    assert f"{kept} rows" in lines[-1]["text"]
    assert "Free space" in lines[-1]["text"]


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_sent(tmp_path):
    (tmp_path / "file").write_text("")
    with serving({"m": good}) as server:
        done, lines, _ = bench(server.url, tmp_path / "file", *QUICK)
        assert server.requests == []
    assert done.returncode == 4
    assert lines[-1]["code"] == "write_error"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--concurrency", "0"), "load.levels"),
        (("--concurrency", "1", "--rate", "2"), "give one of them"),
        (("--input-tokens", "0"), "workload.input_tokens"),
        (("--api-key-env", "NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE"),
        (("--pue", "0.5"), "account.pue"),
        (("--total-timeout", "inf"), "timeouts.total_s"),
        (("--rate", "20000", "--requests", "1"), "load.levels"),
    ],
)
def test_usage_errors_name_the_field_and_the_fix(tmp_path, arguments, words):
    done, lines, _ = bench("http://127.0.0.1:9", tmp_path, *arguments)
    assert done.returncode == 2
    assert words in lines[-1]["text"]


@pytest.mark.parametrize("level", ["inf", "nan", "1,inf"])
@pytest.mark.parametrize("option", ["--concurrency", "--rate"])
def test_a_load_that_is_no_number_is_refused_in_one_line(tmp_path, option, level):
    done, *_ = bench("http://127.0.0.1:9", tmp_path, option, level)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{option}: '{level}' is not a list of numbers such as 1,4,16" in done.stderr


def test_results_are_never_written_over(tmp_path):
    (tmp_path / "summary.json").write_text("{}")
    done, lines, _ = bench("http://127.0.0.1:9", tmp_path)
    assert done.returncode == 2
    assert lines[-1]["text"].startswith("--out: ")
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_the_help_shows_each_default_once():
    text = " ".join(runners("bench", "--help").stdout.split())
    for words in ("(default openai-chat)", "(default 600.0)", "(default 128)", "(default bar)"):
        assert words in text
    assert "None" not in text


def test_prompts_shorter_than_the_template_are_refused_before_anything_is_measured(tmp_path):
    def thirty_of_template(wire):
        words = len(server.requests[-1]["messages"][0]["content"].split())
        wire.head()
        wire.words("a", "b")
        wire.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        wire.event({"choices": [], "usage": {"prompt_tokens": 30 + words, "completion_tokens": 2}})
        wire.done()

    with serving({"m": thirty_of_template}) as server:
        done, lines, _ = bench(server.url, tmp_path, "--requests", "5", "--input-tokens", "30", *QUICK)
        assert len(server.requests) == 2
    assert done.returncode == 3
    assert lines[-1]["code"] == "prompt_too_short"
    assert "the chat template alone has 30 tokens; ask for at least 31" in lines[-1]["text"]


def test_a_key_reaches_the_server_and_no_file(tmp_path):
    with serving({"m": good}) as server:
        done, *_ = bench(
            server.url, tmp_path, "--requests", "10", "--api-key-env", "OUR_KEY", *QUICK, OUR_KEY="canary-key-1"
        )
        assert all(b"Authorization: Bearer canary-key-1" in head for head in server.heads)
    assert done.returncode == 0
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir()) + done.stdout.encode() + done.stderr.encode()
    assert b"canary-key-1" not in kept


def test_the_asked_concurrency_is_what_the_server_sees(tmp_path):
    ledger = Ledger(awaited=45)
    with serving({"m": ledger.script(0.05)}) as server:
        bench(server.url, tmp_path, "--concurrency", "45", "--requests", "200", "--power", "none", "--calibrate", "0")
        assert ledger.peak == 45


def test_a_kept_connection_that_dies_before_any_byte_is_retried_once_and_counted(tmp_path):
    calls = []

    def answers_then_closes(wire):
        calls.append(1)
        good(wire)
        if len(calls) % 2:
            wire.sock.close()

    with serving({"keep": answers_then_closes}) as server:
        done, _, summary = bench(server.url, tmp_path, "--requests", "40", *QUICK, model="keep")
    assert done.returncode == 0
    assert summary["stages"][0]["ok"] == 40


def test_probe_says_what_is_there(engine):
    url, model = engine
    done = runners("probe", "--url", f"{url}/v1/chat/completions", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert (found["usable"], found["engine"], found["models"]) == (True, "llama.cpp", [model])
    assert {check["name"]: check["ok"] for check in found["checks"]} == dict.fromkeys(
        ["models", "engine", "streaming", "usage", "ignore_eos", "length", "metrics"], True
    )


def test_probe_asks_as_a_run_would(tmp_path):
    authority = Authority(tmp_path)
    with serving_tls({"m": good}, authority.certificate(), clients=authority.ca) as server:
        wire = ("--api-key-env", "KEY", "--api-key-header", "X-Key", "--header", "X-Team=a", "--body", "top_k=1")
        asked = ("probe", "--url", server.url, "--model", "m", *wire)
        files = ("--ca-file", str(authority.ca), "--client-cert", str(authority.certificate("client")))
        trusting = runners(*asked, *files, KEY="canary-1")
        heads, bodies = b"".join(server.heads), server.requests[:]
        doubting = runners(*asked, KEY="canary-1")
    assert trusting.returncode == 0, trusting.stdout + trusting.stderr
    assert b"X-Key: canary-1" in heads
    assert b"X-Team: a" in heads
    assert {body["top_k"] for body in bodies} == {1}
    assert doubting.returncode == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((), "--url"), (("--url", "https://h", "--client-key", "k.pem"), "target.client_key_file")],
)
def test_probe_says_what_cannot_be_asked(arguments, words):
    done = runners("probe", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_probe_of_a_web_site_says_that_it_is_no_llm_server():
    with serving({"m": json_body(b"<html>hello</html>", "200 OK", "text/html")}) as server:
        done = runners("probe", "--url", server.url)
    assert done.returncode == 3
    assert "bad_content_type" in done.stdout
    assert "Is the URL right?" in done.stdout


def test_probe_tells_an_error_page_in_one_line_without_its_markup():
    page = b"<html><head><style>p {color: red}</style></head>\n<body>\n  <h1>502</h1>\n\n  <p>Bad   Gateway</p></body>"
    with serving({"m": json_body(page, "502 Bad Gateway", "text/html")}) as server:
        done = runners("probe", "--url", server.url)
    assert "(502 502 Bad Gateway)" in done.stdout


def test_probe_of_what_is_no_url_says_so_and_repeats_no_password():
    done = runners("probe", "--url", "http://me:canary-1@host")
    assert done.returncode == 3
    assert done.stdout.splitlines()[0] == "This URL cannot be used."
    assert "canary-1" not in done.stdout


@pytest.mark.parametrize(
    ("told", "version"),
    [("b0-unknown", ""), ("b4321-abc", "b4321-abc"), ("b1 sk-canary", "b1 [key]"), ([[1]], "[[1]]")],
)
def test_a_version_is_what_the_server_tells_without_a_key_or_a_build_that_knows_none(monkeypatch, told, version):
    page = Page(200, "", {"default_generation_settings": {"n": 1}, "build_info": told}, "")
    monkeypatch.setattr("runners.probe.fetch", lambda *_: page)
    where = destination(base_endpoint("http://127.0.0.1:9"))
    assert identify(where, secret="sk-canary")[:2] == ("llama.cpp", version)


def test_an_endpoint_is_asked_for_its_identity_before_the_first_stage(tmp_path, monkeypatch):
    asked = []

    def identity(where, headers, *, secret, on_tick):
        asked.append(len(server.requests))
        return "engine", "1", ""

    monkeypatch.setattr("runners.bench.identify", identity)
    with serving({"m": good}) as server:
        spec = RunSpec(
            Target(server.url, "m"),
            load=Load(requests=10, calibrate_s=0),
            power=Power("none"),
            timeouts=Timeouts(2, 2, 2, 5),
        )
        run = Bench(spec, tmp_path, JsonProgress())
        run.run()
        assert len(server.requests) == 12
    assert asked == [2]
    assert run.summary["target"]["engine"] == "engine"


def test_the_table_tells_of_each_instrument_in_a_sentence_and_in_full_when_asked():
    notes = [
        {"code": "sampled_host", "text": "Power is that of the machine that samples."},
        {"code": "rapl_missing", "text": "No RAPL counters under /sys/class/x: usual in machines. Use another one."},
    ]
    summary = {"stages": [], "levels": [], "power": {"notes": notes}}
    assert table(summary).endswith("\npower: No RAPL counters under /sys/class/x: usual in machines.")
    assert "machine that samples" not in table(summary)
    assert table(summary, verbose=True).endswith("Use another one.")
