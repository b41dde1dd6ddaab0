"""Measurements that came out wrong in other tools: the smallest input that shows each, and the right value.

Servers send on a script of milliseconds over a real socket and note when they sent; rows are compared with that. What
is arithmetic alone is checked on rows.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from runners.load.answer import Answer
from runners.load.arrivals import ClosedLoop, Span
from runners.load.check import exchange_once
from runners.load.dialects import form
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.plan import fixed_stages
from runners.load.records import SCHEMA
from runners.load.report import table
from runners.load.summary import summarise, summarise_stage
from runners.load.target import Requests, base_endpoint, destination
from runners.load.words import LengthFit, Words
from runners.spec import Dialect, Load, RunSpec, Target, Timeouts, Workload
from tests.services.misbehaving import Script, Wire, content, serving

TIMEOUTS = Timeouts(connect_s=2.0, first_byte_s=5.0, idle_s=2.0, total_s=10.0)
#: How far a stamp may lie from the moment before the server sent: its thread may have to wait for a busy core.
NEAR_MS = 40.0

Event = tuple[float, bytes]


def sse(data: Any) -> bytes:
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def delta(**said: Any) -> bytes:
    return sse({"choices": [{"index": 0, "delta": said, "finish_reason": None}]})


def finished(reason: str = "stop", index: int = 0) -> bytes:
    return sse({"choices": [{"index": index, "delta": {}, "finish_reason": reason}]})


def usage(tokens: int, prompt: int = 5, **more: Any) -> bytes:
    return sse({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens, **more}})


DONE = sse(b"[DONE]")


@dataclass
class Timed:
    """Sends each piece at its millisecond after the request; ``sent_ns`` are the true times of sending."""

    pieces: list[Event]
    sent_ns: list[int] = field(default_factory=list)

    def __call__(self, wire: Wire) -> None:
        began_ns = time.monotonic_ns()
        wire.head()
        for at_ms, piece in self.pieces:
            time.sleep(max(0.0, began_ns / 1e9 + at_ms / 1e3 - time.monotonic()))
            self.sent_ns.append(time.monotonic_ns())
            wire.chunk(piece)
        wire.end()


def row_of(
    script: Script, *, count_tokens: Callable[[str], int] | None = None, asked: int = 8, **workload: Any
) -> dict[str, Any]:
    with serving({"m": script}) as server:
        requests = Requests(base_endpoint(server.url), Target(server.url, "m"), Workload(**workload))
        exchange = exchange_once(destination(requests.endpoint), TIMEOUTS, requests.build("hi", asked), asked)
    return Answer(exchange, requests.form, streams=requests.streams, count_tokens=count_tokens).row()


def timed(*pieces: Event, **more: Any) -> tuple[dict[str, Any], list[int]]:
    script = Timed(list(pieces))
    return row_of(script, **more), script.sent_ns


def stage(rows: list[dict[str, Any]], *, level: float = 1.0, **workload: Any) -> dict[str, Any]:
    spec = RunSpec(
        Target("http://h"), workload=Workload(**workload), load=Load(levels=(level,), requests=max(1, len(rows)))
    )
    return summarise_stage(pa.Table.from_pylist(rows, schema=SCHEMA), fixed_stages(spec)[0], spec)


def mean(rows: list[dict[str, Any]], metric: str, **more: Any) -> float | None:
    found = stage(rows, **more)["metrics"].get(metric)
    return found and found["mean"]


def near(stamp_ns: int, true_ns: int) -> bool:
    """A stamp is never before the truth by more than the clock's error, and soon after it."""
    return -0.1 < (stamp_ns - true_ns) / 1e6 < NEAR_MS


def words(text: str) -> int:
    return len(text.split())


# A. time to first token


def test_1_a_chunk_with_a_role_alone_is_the_first_event_and_not_the_first_token():
    row, sent = timed(
        (5, delta(role="assistant", content="")), (214, delta(content="a")), (220, finished()), (220, DONE)
    )
    assert near(row["first_event_ns"], sent[0])
    assert near(row["first_token_ns"], sent[1])
    assert row["first_token_ns"] - row["first_event_ns"] > 160e6


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_2_and_6_reasoning_is_the_first_token_and_the_answer_has_its_own_first(name):
    thoughts = [(50.0 + 10 * number, delta(**{name: "t "})) for number in range(20)]
    row, sent = timed(*thoughts, (250, delta(content="a")), (251, finished()), (251, DONE))
    assert near(row["first_token_ns"], sent[0])
    assert near(row["first_answer_ns"], sent[20])
    assert row["events"] == 21


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_4_reasoning_without_usage_is_counted_with_the_tokenizer(name):
    row, _ = timed((0, delta(**{name: "so we "})), (0, delta(**{name: "think"})), (0, finished()), (0, DONE),
                   count_tokens=words)  # fmt: skip
    assert (row["outcome"], row["output_tokens"], row["token_source"]) == ("ok", 3, "tokenizer")


def test_7_a_model_that_says_nothing_has_no_first_token_and_is_empty():
    row, _ = timed((0, delta(role="assistant")), (20, finished()), (30, usage(1)), (30, DONE))
    assert (row["outcome"], row["first_token_ns"], row["events"]) == ("empty", None, 0)
    assert "ttft_ms" not in stage([row])["metrics"]


def test_9_tokens_that_came_with_the_first_event_are_not_counted_as_decoded_after_it():
    said = [
        (
            100.0 + 80 * number,
            sse({**content("x" * 8), "usage": {"prompt_tokens": 5, "completion_tokens": 8 * number + 8}}),
        )
        for number in range(6)
    ]
    row, sent = timed(*said, (501, finished()), (501, DONE))
    assert row["event_tokens"] == [8] * 6
    true_ms = (sent[5] - sent[0]) / 1e6 / 40
    assert mean([row], "tpot_ms") == pytest.approx(true_ms, abs=NEAR_MS / 40)


def test_11_connecting_headers_and_first_token_are_told_apart():
    def script(wire: Wire) -> None:
        time.sleep(0.1)
        wire.head()
        time.sleep(0.1)
        wire.words("a")
        wire.finish()

    with serving({"m": script}) as server:
        where, finished = destination(base_endpoint(server.url)), list[Exchange]()
        requests = Requests(where.endpoint, Target(server.url, "m"))
        engine = Engine(where, TIMEOUTS, finished.append)
        engine.drive(ClosedLoop(50, Span(0, requests=50)), lambda _: Exchange(requests.build("hi", 8)), drain_s=5)
        engine.close()
    rows = [Answer(exchange, requests.form).row() for exchange in finished]
    assert len(rows) == 50
    for row in rows:
        assert row["connect_ns"] > 0
        assert 95e6 < row["headers_ns"] - row["sent_ns"] < row["first_token_ns"] - row["sent_ns"] - 90e6
    sent_spread_ns = max(row["sent_ns"] for row in rows) - min(row["sent_ns"] for row in rows)
    assert sent_spread_ns > 0


# B. gaps, tokens of several in one event


def test_13_speculative_decoding_has_an_event_gap_and_a_per_token_gap_each_named():
    said = [
        (20 + 9.6 * number, sse({**content("abc"), "usage": {"completion_tokens": 3 * number + 3}}))
        for number in range(10)
    ]
    row, sent = timed(*said, (120, finished()), (120, DONE))
    true_ms = (sent[9] - sent[0]) / 1e6 / 9
    assert mean([row], "event_gap_ms") == pytest.approx(true_ms, abs=NEAR_MS / 9)
    assert mean([row], "itl_ms") == pytest.approx(mean([row], "event_gap_ms") / 3)


def test_15_ten_events_of_four_tokens_are_forty_tokens_and_ten_events():
    row, _ = timed(*((1.0, delta(content="a b c d ")) for _ in range(10)), (2, finished()), (2, usage(40)), (2, DONE))
    assert (row["output_tokens"], row["events"]) == (40, 10)


def test_17_and_18_two_events_in_each_segment_have_no_gap_that_could_be_observed():
    pairs = [(20.0 * number, delta(content="a") + delta(content="b")) for number in range(1, 7)]
    row, sent = timed(*pairs, (121, finished()), (121, usage(12)), (121, DONE))
    offsets = row["event_offsets_ns"].tolist()
    assert offsets[0::2] == offsets[1::2]
    result = stage([row])
    assert "itl_ms" not in result["metrics"]
    assert "itl_not_observable" in {item["code"] for item in result["reasons"]}
    assert mean([row], "tpot_ms") == pytest.approx((sent[5] - sent[0]) / 1e6 / 11, abs=NEAR_MS / 11)


def test_20_time_per_output_token_leaves_the_first_token_out():
    row, sent = timed(*((300 + 10.0 * number, delta(content="a")) for number in range(11)), (401, finished()),
                      (401, usage(11)), (401, DONE))  # fmt: skip
    assert mean([row], "tpot_ms") == pytest.approx((sent[10] - sent[0]) / 1e6 / 10, abs=NEAR_MS / 10)


def test_22_no_gap_holds_the_time_to_first_token():
    result = stage([synthetic(0, ttft_ms=500, gap_ms=10, tokens=11)])
    assert result["metrics"]["itl_ms"]["mean"] == pytest.approx(10)
    assert result["metrics"]["itl_ms"]["max"] == pytest.approx(10)


def test_23_four_streams_at_once_each_have_their_own_time_per_token():
    rows = [synthetic(0, ttft_ms=50, gap_ms=20, tokens=11) for _ in range(4)]
    assert mean(rows, "tpot_ms", level=4.0) == pytest.approx(20)
    assert mean(rows, "interactivity_tokens_per_s", level=4.0) == pytest.approx(50)


def test_25_an_answer_of_one_token_has_no_time_per_token_and_nothing_is_nan():
    row, _ = timed((5, delta(content="a")), (5, finished("length")), (5, usage(1)), (5, DONE), asked=1)
    result = stage([row])
    assert "tpot_ms" not in result["metrics"]
    json.dumps(result, allow_nan=False)


def test_27_a_late_usage_chunk_lengthens_the_stream_and_not_the_latency():
    row, sent = timed(
        (50, delta(content="a")), (100, delta(content="b")), (100, finished()), (300, usage(2)), (310, DONE)
    )
    assert near(row["last_token_ns"], sent[1])
    assert near(row["end_ns"], sent[4])
    assert mean([row], "e2e_ms") == pytest.approx((row["last_token_ns"] - row["sent_ns"]) / 1e6)


def test_28_a_chunk_with_empty_choices_gives_usage_and_no_token_event():
    row, _ = timed((0, delta(content="a")), (0, finished()), (0, usage(7, prompt=3)), (0, DONE))
    assert (row["events"], row["input_tokens"], row["output_tokens"]) == (1, 3, 7)


def test_30_and_35_a_model_that_stops_early_has_the_tokens_that_came_beside_those_asked_for():
    row, _ = timed(
        *((0.0, delta(content="a")) for _ in range(38)), (0, finished()), (0, usage(38)), (0, DONE), asked=512
    )
    assert (row["asked_output_tokens"], row["output_tokens"], row["finish_reason"]) == (512, 38, "stop")
    assert "stopped_early" in row["flags"]


@pytest.mark.parametrize(("told", "flagged"), [(1000, False), (1019, False), (5000, True), (979, True)])
def test_32_prompts_that_are_longer_than_asked_for_by_the_servers_count_are_flagged(told, flagged):
    rows = [synthetic(i * 200) | {"asked_input_tokens": 1000, "input_tokens": told} for i in range(5)]
    codes = {item["code"] for item in stage(rows, input_tokens=1000)["reasons"]}
    assert ("input_length_off" in codes) is flagged


@pytest.mark.parametrize("asked", [1, 2, 40, 41, 1000])
def test_33_a_small_length_is_never_an_empty_prompt_and_never_another(asked):
    fit = LengthFit.from_counts((16, 56), (112, 152))  # a template of 40 tokens, one token a word
    prompt = Words(0, "salt").text("0", fit.words_for(asked))
    assert len(prompt.split()) == max(1, asked - 40)


def test_37_a_prompt_is_never_asked_to_come_back():
    for dialect, field_name in (
        (Dialect.OPENAI_COMPLETIONS, b'"echo":false'),
        (Dialect.TGI_GENERATE, b'"return_full_text":false'),
        (Dialect.TRITON_GENERATE, b'"exclude_input_in_output":true'),
    ):
        requests = Requests(base_endpoint("http://h", dialect), Target("http://h", "m", dialect))
        assert field_name in requests.build("hi", 8)


def choice(index: int, text: str) -> bytes:
    return sse({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}]})


def test_38_two_choices_are_two_timelines_of_one_request():
    said = [(50.0 + 10 * number, choice(number % 2, "a")) for number in range(12)]
    row, sent = timed(*said, (161, finished()), (161, finished(index=1)), (161, usage(12)), (161, DONE), choices=2)
    assert row["event_choices"] == [0, 1] * 6
    assert (row["events"], row["output_tokens"]) == (12, 12)
    assert near(row["first_token_ns"], sent[0])
    true_ms = (sent[10] - sent[0] + sent[11] - sent[1]) / 1e6 / 10
    assert mean([row], "event_gap_ms") == pytest.approx(true_ms, abs=NEAR_MS / 10)
    assert mean([row], "tpot_ms") == pytest.approx(mean([row], "event_gap_ms"))


def test_38_a_usage_for_each_choice_is_added_up():
    row, _ = timed((0, choice(0, "a")), (0, choice(1, "b")), (0, choice(1, "c")), (0, finished(index=1)), (0, usage(2)),
                   (0, choice(0, "d")), (0, choice(0, "e")), (0, finished(index=0)), (0, usage(3)), (0, DONE),
                   choices=2)  # fmt: skip
    assert (row["output_tokens"], row["input_tokens"]) == (5, 5)
    assert "usage_conflict" not in row["flags"]


def test_38_texts_of_two_choices_are_counted_each_by_itself():
    row, _ = timed((0, choice(0, "ab")), (0, choice(1, "x")), (0, choice(0, "cd e")), (0, finished()), (0, DONE),
                   count_tokens=words, choices=2)  # fmt: skip
    assert row["output_tokens"] == 3  # "abcd e" and "x"


def test_40_a_long_prompt_is_not_in_the_decode_rate_and_the_servers_own_times_are_kept_beside():
    timings = sse({"choices": [], "timings": {"prompt_ms": 290.0, "predicted_ms": 150.0, "predicted_n": 15}})
    said = [(300 + 10.0 * number, delta(content="a")) for number in range(15)]
    row, sent = timed(*said, (441, finished()), (441, usage(15)), (441, timings), (441, DONE))
    assert mean([row], "interactivity_tokens_per_s") == pytest.approx(14e9 / (sent[14] - sent[0]), rel=0.3)
    assert (row["server_prompt_ms"], row["server_decode_ms"]) == (290.0, 150.0)


def test_a_usage_that_the_text_does_not_bear_out_is_kept_flagged_and_told():
    said = [(0.0, delta(content="word ")) for _ in range(10)]
    row, _ = timed(*said, (0, finished()), (0, usage(500)), (0, DONE), count_tokens=words)
    assert (row["output_tokens"], row["counted_tokens"]) == (500, 10)
    assert "usage_disagrees" in row["flags"]
    assert "usage_disagrees" in {item["code"] for item in stage([row])["reasons"]}


def test_reasoning_tokens_are_a_part_of_the_output_and_not_added_again():
    details = {"completion_tokens_details": {"reasoning_tokens": 9}}
    row, _ = timed(
        (0, delta(content="a b c")), (0, finished()), (0, usage(12, **details)), (0, DONE), count_tokens=words
    )
    assert (row["output_tokens"], row["reasoning_tokens"]) == (12, 9)
    assert "usage_disagrees" not in row["flags"]  # nine of them were not shown


def test_reasoning_tokens_are_those_of_the_running_count_where_the_usage_says_nothing():
    def at(count, **said):
        return sse({"choices": [{"index": 0, "delta": said}], "timings": {"predicted_n": count}})

    end = ((0, finished()), (0, usage(9)), (0, DONE))
    row, _ = timed(
        (0, at(3, reasoning_content="so")), (0, at(5, reasoning_content="we")), (0, at(8, content="a")), *end
    )
    assert row["reasoning_tokens"] == 5
    row, _ = timed((0, at(3, content="a")), (0, at(5, content="b")), *end)
    assert row["reasoning_tokens"] == 0
    row, _ = timed((0, delta(reasoning_content="so")), (0, delta(content="a")), *end)
    assert row["reasoning_tokens"] is None


# D. parsing


def test_42_three_events_of_one_write_are_three_events_of_one_read():
    row, _ = timed((5, delta(content="a") + delta(content="b") + delta(content="c")), (5, finished() + usage(3) + DONE))
    assert row["events"] == 3
    assert len(set(row["event_offsets_ns"])) == 1


def test_43_carriage_returns_at_the_border_of_a_read_change_nothing():
    text = (delta(content="a") + delta(content="b") + finished() + usage(2) + DONE).replace(b"\n", b"\r\n")
    border = text.index(b"\r\n\r\n") + 3
    row, _ = timed((0, text[:border]), (20, text[border:]))
    assert (row["outcome"], row["events"], row["output_tokens"]) == ("ok", 2, 2)


def test_45_ids_names_and_retry_lines_change_nothing():
    text = delta(content="a").replace(b"data:", b"id: 7\nevent: message\nretry: 10\ndata:")
    row, _ = timed((0, text), (0, finished()), (0, DONE))
    assert (row["outcome"], row["events"]) == ("ok", 1)


@pytest.mark.parametrize(("size", "outcome"), [(200_000, "ok"), (4_000_000, "ok"), (4_300_000, "too_large")])
def test_47_and_50_a_long_event_is_taken_up_to_a_stated_limit(size, outcome):
    row, _ = timed((0, delta(content="x" * size)), (0, finished()), (0, DONE))
    assert row["outcome"] == outcome
    assert outcome == "ok" or "size limit" in row["detail"]


def test_48_large_events_meet_no_back_pressure_and_the_delay_of_reading_is_recorded():
    big = delta(content="x" * 200_000)
    with serving({"m": Timed([(0.0, big)] * 150 + [(0, finished()), (0, DONE)])}) as server:
        where, done = destination(base_endpoint(server.url)), list[Exchange]()
        requests = Requests(where.endpoint, Target(server.url, "m"))
        engine = Engine(where, TIMEOUTS, done.append)
        engine.drive(ClosedLoop(1, Span(0, requests=1)), lambda _: Exchange(requests.build("hi", 8)), drain_s=9)
        engine.close()
    row = Answer(done[0], requests.form).row()
    assert (row["outcome"], row["events"]) == ("ok", 150)
    assert (row["end_ns"] - row["sent_ns"]) / 1e9 < 5  # 30 MB; a reader that holds the server up takes minutes
    assert len(engine.read_delays_ns()) >= 150
    assert min(engine.read_delays_ns()) >= 0


# E. errors


def test_52_a_stream_of_the_end_mark_alone_is_empty():
    row, _ = timed((0, DONE))
    assert (row["outcome"], row["first_token_ns"]) == ("empty", None)


def test_53_instant_failures_do_not_pull_the_averages_and_are_loud():
    good = [synthetic(i * 200, ttft_ms=50) for i in range(20)]
    bad = [synthetic(i * 200, ttft_ms=0, tokens=0) | {"outcome": "http_error", "detail": "503"} for i in range(20)]
    result = stage(good + bad)
    assert result["metrics"]["ttft_ms"]["mean"] == pytest.approx(50)
    assert result["metrics"]["success_share"]["mean"] == 50
    assert (result["failed"], result["verdict"]) == (20, "failed")
    assert result["metrics"]["request_per_s"]["n"] <= 20


def test_55_the_number_of_failures_is_the_first_line_of_the_report():
    rows = [synthetic(i * 200) for i in range(19)] + [synthetic(4000, tokens=0) | {"outcome": "reset"}]
    spec = RunSpec(Target("http://h"), load=Load(levels=(1.0,), requests=20))
    report = table(summarise(pa.Table.from_pylist(rows, schema=SCHEMA), spec))
    assert report.splitlines()[0] == "1 of 20 requests failed"


def test_57_tool_calls_of_null_are_nothing():
    row, _ = timed((0, delta(content="x", tool_calls=None)), (0, finished()), (0, DONE))
    assert (row["outcome"], row["events"]) == ("ok", 1)


def test_108_a_server_that_ignores_stream_is_told_apart_and_has_no_first_token():
    answer = {"choices": [{"message": {"content": "a b"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}
    row = row_of(lambda wire: wire.body(json.dumps(answer).encode()))
    streamed = synthetic(200)
    result = stage([row, streamed | {"sent_ns": row["sent_ns"], "end_ns": row["end_ns"]}])
    assert result["metrics"]["ttft_ms"]["n"] == 1
    assert "tpot_ms" not in stage([row])["metrics"]
    assert {item["code"]: item["text"][:14] for item in result["reasons"]}["not_streaming"] == "1 of 2 answers"


MS = 1_000_000
START = 10_000 * MS


def synthetic(sent_ms: float, *, ttft_ms: float = 50.0, gap_ms: float = 10.0, tokens: int = 11) -> dict[str, Any]:
    """A row of one token an event with equal gaps."""
    sent = START + round(sent_ms * MS)
    offsets = [round((ttft_ms + gap_ms * i) * MS) for i in range(tokens)]
    last = sent + offsets[-1] if offsets else None
    return dict.fromkeys(SCHEMA.names) | {
        "stage": 0, "index": 0, "warmup": False, "due_ns": sent, "ready_ns": sent, "sent_ns": sent,
        "first_token_ns": sent + offsets[0] if offsets else None, "last_token_ns": last,
        "end_ns": (last or sent) + MS, "outcome": "ok", "flags": [], "detail": "", "retried": False,
        "input_tokens": 100, "output_tokens": tokens, "events": tokens, "event_offsets_ns": offsets,
    }  # fmt: skip


def test_the_script_of_these_tests_speaks_the_dialect_that_they_mean():
    assert form(Dialect.OPENAI_CHAT).read(json.loads(delta(content="a")[6:])).pieces[0].content == "a"
