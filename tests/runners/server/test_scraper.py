"""The scraper beside a real run, with metrics pages that do what they should not."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from runners.load.target import base_endpoint, destination
from runners.server.scraper import Scraper
from runners.spec import ServerMetrics, Target
from tests.services.misbehaving import Wire, good, serving
from tests.services.tls import Authority, serving_tls

ROOT = Path(__file__).resolve().parents[3]
Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def page(answer: Answer) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server of one page; its address, and the headers of each request so far."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(dict(self.headers))
            answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics", seen
    finally:
        server.shutdown()
        server.server_close()


def body(text: str, status: int = 200) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text.encode())

    return answer


def paced(wire: Wire, seconds: float = 0.03) -> None:
    time.sleep(seconds)
    good(wire)


def bench(
    out: Path, *options: str, requests: int = 30, at: Any = None, **environment: str
) -> tuple[dict[str, Any], float]:
    """The summary of a short run on a small good server, and its seconds."""
    began = time.monotonic()
    with at or serving({"m": paced}) as server:
        done = subprocess.run(
            [sys.executable, "-m", "runners", "bench", "--url", server.url, "--model", "m", "--power", "none",
             "--calibrate", "0", "--requests", str(requests), "--out", str(out), *options],
            cwd=ROOT, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((out / "summary.json").read_text()), time.monotonic() - began


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


def codes(summary: dict[str, Any]) -> list[str]:
    return [note["code"] for note in summary["server"]["notes"]]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (body("nothing here", 404), "no_metrics_page"),
        (body("<html>a page</html>"), "no_metrics_page"),
        (body("llamacpp:requests_processing many\n"), "metrics_unreadable"),
        (lambda handler: time.sleep(30), "metrics_no_answer"),
        (lambda handler: handler.connection.close(), "metrics_no_answer"),
    ],
    ids=["not found", "not metrics", "unreadable", "hangs", "closes"],
)
def test_a_page_that_cannot_be_read_is_a_note_and_the_run_is_valid_and_not_held_up(tmp_path, answer, code):
    with page(answer) as (url, _):
        summary, seconds = bench(tmp_path, "--metrics-url", url)
    assert summary["valid"]
    assert codes(summary) == [code]
    assert summary["stages"][0]["server"] is None
    assert pq.read_table(tmp_path / "server.parquet").num_rows == 0
    assert seconds < 20


def started(url: str, out: Path) -> Scraper:
    return Scraper.start(ServerMetrics(), destination(base_endpoint(url)), Target(url, "m"), [], out)


def test_no_stage_waits_for_a_page_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr("runners.server.scraper.MARK_TIMEOUT_S", 30)  # a busy machine may take a second over the page
    others = children()
    with page(body("nothing here", 404)) as (url, _):
        scraper = started(url.removesuffix("/metrics"), tmp_path)
        assert children() > others
        scraper.look()
        assert children() <= others
        scraper.mark()
        scraper.stop()
    account = scraper.describe()
    assert [note["code"] for note in account["notes"]] == ["no_metrics_page"]
    assert (account["url"], account["failed"], account["marks_ns"]) == (url, 5, [None])


def test_a_page_that_fails_at_first_is_read_once_it_is_there(tmp_path):
    def answer(handler: BaseHTTPRequestHandler) -> None:
        body("llamacpp:requests_processing 0\n", 200 if there else 503)(handler)

    there = list[int]()
    with page(answer) as (url, _):
        scraper = started(url.removesuffix("/metrics"), tmp_path)
        scraper.look()
        there.append(1)
        for _ in range(20):  # each waits for a second at most
            scraper.mark()
            if scraper.marks_ns[-1]:
                break
        scraper.stop()
    account = scraper.describe()
    assert account["engine"] == "llama.cpp"
    assert any(account["marks_ns"])


def test_switched_off_nothing_is_asked(tmp_path):
    with page(body("llamacpp:requests_processing 0\n")) as (url, seen):
        summary, _ = bench(tmp_path, "--metrics-url", url, "--no-metrics")
    assert codes(summary) == ["metrics_off"]
    assert seen == []


def test_the_key_goes_to_the_measured_server_and_to_no_other(tmp_path):
    with page(body("llamacpp:requests_processing 0\nllamacpp:tokens_predicted_total 4\n")) as (url, seen):
        summary, _ = bench(tmp_path, "--metrics-url", url, "--api-key-env", "KEY", KEY="sk-canary-9f8e7d")
    assert summary["server"]["engine"] == "llama.cpp"
    assert len(seen) >= 3
    assert not any("sk-canary" in str(headers) for headers in seen)


def test_the_page_is_read_behind_tls_with_the_same_authority_as_the_load(tmp_path):
    authority = Authority(tmp_path)
    at = serving_tls({"m": paced}, authority.certificate())
    summary, _ = bench(tmp_path, "--ca-file", str(authority.ca), at=at)
    assert summary["server"]["url"].startswith("https://")
    [note] = summary["server"]["notes"]
    assert "has no metrics that are known" in note["text"]  # so it was read


def test_an_address_that_is_never_contacted_is_not_contacted_for_metrics_either(tmp_path):
    summary, _ = bench(tmp_path, "--metrics-url", "http://169.254.169.254/latest/meta-data")
    assert codes(summary) == ["metrics_address"]
    assert "never contacted" in summary["server"]["notes"][0]["text"]


def test_the_page_is_read_about_once_a_second_and_once_more_around_each_stage(tmp_path):
    told = "llamacpp:requests_processing 2\nllamacpp:tokens_predicted_total 4\n"
    with page(body(told)) as (url, _):
        summary, _ = bench(tmp_path, "--metrics-url", url, "--duration", "3", requests=10_000)
    marks = summary["server"]["marks_ns"]
    assert len(marks) == 2
    times = sorted(set(pq.read_table(tmp_path / "server.parquet")["t_ns"].to_pylist()))
    inside = [t for t in times if marks[0] < t < marks[1]]
    assert 3 <= len(inside) <= 7
    assert summary["stages"][0]["server"]["gauges"]["requests_running"] == {"mean": 2.0, "max": 2.0}


def test_a_search_for_saturation_sees_the_queue_of_each_stage_while_the_run_goes_on(tmp_path):
    """Two are served at a time, fifty milliseconds each."""
    slots, inside, lock = threading.Semaphore(2), [0, 0], threading.Lock()

    def count(waiting: int, running: int) -> None:
        with lock:
            inside[0] += waiting
            inside[1] += running

    def served(wire: Wire) -> None:
        count(1, 0)
        with slots:
            count(-1, 1)
            paced(wire, 0.05)
            count(0, -1)

    def gauges(handler: BaseHTTPRequestHandler) -> None:
        body(
            "".join(f"vllm:num_requests_{name} {n}\n" for name, n in zip(("waiting", "running"), inside, strict=True))
        )(handler)

    with page(gauges) as (url, _):
        options = "--find", "saturation", "--concurrency", "4,8", "--metrics-url", url
        summary, _ = bench(tmp_path, *options, requests=92, at=serving({"m": served}))
    assert summary["saturation"]["queue_known"]
    waiting = [stage["server"]["gauges"]["requests_queued"]["mean"] for stage in summary["stages"]]
    assert waiting[0] < waiting[1] <= 6
