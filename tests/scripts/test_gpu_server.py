"""The batching and the wire of the GPU check's server, on a model that only counts, through real sockets."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest
from gpu_server.batching import Batcher, Request
from gpu_server.serving import Service, serve
from gpu_server.wire import BadRequest, asked

ROOT = Path(__file__).parents[2]


class Counting:
    """Tells the length of the prompt, then counts up from 1; ``steps`` keeps who took part in each step."""

    def __init__(self, slots=2, step_s=0.0, broken_after=None):
        self.slots, self.context, self.vocabulary = slots, 400, 1000
        self.steps, self.count = [], [0] * slots
        self._step_s, self._broken_after = step_s, broken_after

    def prefill(self, slot, tokens):
        self.count[slot] = 0
        return len(tokens)

    def decode(self, slots):
        if self._broken_after is not None and len(self.steps) >= self._broken_after:
            raise RuntimeError("out of memory")
        time.sleep(self._step_s)
        self.steps.append(list(slots))
        for slot in slots:
            self.count[slot] += 1
        return [self.count[slot] for slot in slots]


class Answered(Request):
    """A request that keeps what it was given."""

    def __init__(self, words, max_tokens):
        self.given, self.ended = [], threading.Event()
        super().__init__(range(words), max_tokens, self._take)

    def _take(self, token):
        self.given.append(token)
        if token is None:
            self.ended.set()


@pytest.fixture
def batcher():
    started = []

    def start(model):
        started.append(Batcher(model))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_requests_join_a_running_batch_and_leave_it(batcher):
    model = Counting(slots=2, step_s=0.01)
    running = batcher(model)
    long, short = Answered(5, 20), Answered(3, 4)
    running.submit(long)
    time.sleep(0.05)
    running.submit(short)
    assert long.ended.wait(5)
    assert short.ended.wait(5)
    assert long.given == [5, *range(1, 20), None]
    assert short.given == [3, 1, 2, 3, None]
    assert [0, 1] in model.steps
    assert model.steps[-1] == [0]


def test_what_does_not_fit_waits_for_a_slot(batcher):
    model = Counting(slots=1)
    running = batcher(model)
    requests = [Answered(words, 3) for words in (1, 2, 3)]
    for request in requests:
        running.submit(request)
    assert all(request.ended.wait(5) for request in requests)
    assert [request.given for request in requests] == [[words, 1, 2, None] for words in (1, 2, 3)]
    assert max(map(len, model.steps)) == 1


def test_a_request_that_nobody_waits_for_frees_its_slot(batcher):
    running = batcher(Counting(slots=1, step_s=0.01))
    left, next_one = Answered(1, 10_000), Answered(2, 2)
    running.submit(left)
    running.submit(next_one)
    time.sleep(0.05)
    left.cancelled.set()
    assert next_one.ended.wait(5)


def test_a_model_that_breaks_ends_every_stream_and_is_told(batcher):
    running = batcher(Counting(broken_after=2))
    request = Answered(1, 50)
    running.submit(request)
    assert request.ended.wait(5)
    assert "out of memory" in running.failure


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not a chat completion"),
        (b'{"messages": []}', "at least one word"),
        (b'{"messages": [{"content": "a"}], "max_tokens": 400}', "do not fit"),
        (b'{"messages": [{"content": "a"}], "max_tokens": -1}', "at least one token"),
    ],
)
def test_a_bad_body_is_refused_in_words(body, words):
    with pytest.raises(BadRequest, match=words):
        asked(body, 100, 400)


async def end_of_others():
    """A connection that is still open would complain of its loop's end in the middle of another test."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@pytest.fixture
def address():
    """Starts a service of a model; gives host:port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    batchers = []

    def start(model):
        batchers.append(Batcher(model))
        batchers[-1].start()
        service = Service(batchers[-1], "counting", model.vocabulary, model.context)
        server = asyncio.run_coroutine_threadsafe(serve(service, "127.0.0.1", 0), loop).result(5)
        return server.sockets[0].getsockname()[1]

    yield start
    for one in batchers:
        one.stop()
    asyncio.run_coroutine_threadsafe(end_of_others(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


def ask(port, path, body=None):
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


CHAT = {"messages": [{"role": "user", "content": "one two three"}], "max_tokens": 3}


def test_a_stream_is_server_sent_events_with_usage_at_the_end(address):
    port = address(Counting())
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    status, text = ask(port, "/v1/chat/completions", body)
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert (status, events[-1]) == (200, "[DONE]")
    chunks = [json.loads(event) for event in events[:-1]]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert [delta.get("content") for delta in deltas] == ["", " w7", " w1", " w2", None]
    assert chunks[-1]["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def test_a_whole_answer_models_health_and_what_is_not_there(address):
    port = address(Counting())
    status, text = ask(port, "/v1/chat/completions", CHAT)
    assert (status, json.loads(text)["choices"][0]["message"]["content"]) == (200, " w7 w1 w2")
    assert json.loads(ask(port, "/v1/models")[1])["data"][0]["id"] == "counting"
    assert ask(port, "/health")[0] == 200
    assert ask(port, "/nowhere")[0] == 404
    assert ask(port, "/v1/chat/completions", {"messages": 5})[0] == 400


def test_the_instrument_measures_it(address, tmp_path):
    port = address(Counting(slots=4, step_s=0.002))
    done = subprocess.run(
        [sys.executable, "-m", "runners", "bench", "--url", f"http://127.0.0.1:{port}", "--concurrency", "4",
         "--requests", "24", "--input-tokens", "40", "--output-tokens", "16", "--power", "none", "--calibrate", "0",
         "--no-metrics", "--out", str(tmp_path), "--progress", "json"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 4), done.stdout + done.stderr
    stage = json.loads((tmp_path / "summary.json").read_text())["stages"][0]
    assert stage["verdict"] in ("ok", "client_limited")  # the second on a busy machine: the server is what is tested
    assert (stage["ok"], stage["failed"]) == (24, 0)
    assert stage["metrics"]["output_tokens"]["mean"] == 16
    assert stage["metrics"]["input_tokens"]["mean"] == pytest.approx(40, abs=1)
    assert stage["metrics"]["tpot_ms"]["p50"] > 1.5
