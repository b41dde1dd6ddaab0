"""Measurements that came out wrong in other tools: which test holds the right value of each.

PROVEN names them by project and issue; CR stands for what reading a project's code showed. Those that cannot occur:

| where | what | why it cannot occur |
|---|---|---|
| vllm 37666 | peak throughput below the mean | no peak of a short span is told: a rate is the mean of its window |
| aiperf 850 | clients compared over different ways | others run in turn over one loopback in ``tests/perf`` |
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from runners.load.answer import Answer
from runners.load.arrivals import ClosedLoop, Span
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.target import Requests, base_endpoint, destination
from runners.spec import Target, Timeouts
from tests.named import missing
from tests.runners.load.test_measurement_cases import sse, stage
from tests.services.misbehaving import Server, Wire, content, serving

ROOT = Path(__file__).resolve().parents[3]
TIMEOUTS = Timeouts(connect_s=2.0, first_byte_s=5.0, idle_s=2.0, total_s=10.0)

CASES = "runners/load/test_measurement_cases.py::"
HERE = "runners/load/test_known_mismeasurements.py::"
LOADS = "runners/test_workloads.py::"
SUMMARY = "runners/load/test_summary.py::"
BENCH = "runners/test_bench.py::"

PROVEN: dict[str, tuple[str, ...]] = {
    # time to first token
    "vllm 15106, 3759: TTFT at a chunk with a role alone": (
        CASES + "test_1_a_chunk_with_a_role_alone_is_the_first_event_and_not_the_first_token",
    ),
    "guidellm 737, 742, 835; evalscope 1463: reasoning left out": (
        CASES + "test_2_and_6_reasoning_is_the_first_token_and_the_answer_has_its_own_first",
    ),
    "tenstorrent vllm 377: reasoning without usage is no tokens": (
        CASES + "test_4_reasoning_without_usage_is_counted_with_the_tokenizer",
    ),
    "genai-bench 44: TTFT at the usage of an empty answer": (
        CASES + "test_7_a_model_that_says_nothing_has_no_first_token_and_is_empty",
    ),
    "aiperf 1279: many tokens in the first chunk": (
        CASES + "test_9_tokens_that_came_with_the_first_event_are_not_counted_as_decoded_after_it",
        SUMMARY + "test_tokens_that_came_with_the_first_read_are_not_decoded_after_it",
    ),
    "aiperf 1424: a burst is not instantaneous": (CASES + "test_11_connecting_headers_and_first_token_are_told_apart",),
    # gaps and tokens
    "sglang 12064: event gap for token gap": (
        CASES + "test_13_speculative_decoding_has_an_event_gap_and_a_per_token_gap_each_named",
    ),
    "inference-perf 410, 364: chunks counted as tokens": (
        CASES + "test_15_ten_events_of_four_tokens_are_forty_tokens_and_ten_events",
    ),
    "tt-inference-server 4681; ray 59681: gaps of nothing within one segment": (
        CASES + "test_17_and_18_two_events_in_each_segment_have_no_gap_that_could_be_observed",
    ),
    "guidellm 1144: TPOT with TTFT in it": (CASES + "test_20_time_per_output_token_leaves_the_first_token_out",),
    "llmperf 99: gaps with TTFT among them": (CASES + "test_22_no_gap_holds_the_time_to_first_token",),
    "evalscope 320: TPOT as one over the throughput": (
        CASES + "test_23_four_streams_at_once_each_have_their_own_time_per_token",
    ),
    "ipex-llm 12271: NaN for one token": (
        CASES + "test_25_an_answer_of_one_token_has_no_time_per_token_and_nothing_is_nan",
    ),
    "vllm 55508: a late usage lengthens the latency": (
        CASES + "test_27_a_late_usage_chunk_lengthens_the_stream_and_not_the_latency",
    ),
    "vllm 10158; sglang 5451; aiperf 351: no choices": (
        CASES + "test_28_a_chunk_with_empty_choices_gives_usage_and_no_token_event",
    ),
    "sglang 10746; aiperf 339; perf_analyzer 433: asked for is not come": (
        CASES + "test_30_and_35_a_model_that_stops_early_has_the_tokens_that_came_beside_those_asked_for",
    ),
    "vllm 44708, 42532: prompts five times too long": (
        CASES + "test_32_prompts_that_are_longer_than_asked_for_by_the_servers_count_are_flagged",
    ),
    "vllm 17408, 24937, 10847, 10524, 24591, 26834: lengths out of bounds": (
        CASES + "test_33_a_small_length_is_never_an_empty_prompt_and_never_another",
        LOADS + "test_lengths_that_vary_are_asked_for_and_checked_class_by_class",
    ),
    "triton client 779: the prompt echoed": (CASES + "test_37_a_prompt_is_never_asked_to_come_back",),
    "sglang 5735: choices as one stream": (
        CASES + "test_38_two_choices_are_two_timelines_of_one_request",
        CASES + "test_38_a_usage_for_each_choice_is_added_up",
    ),
    "anything-llm 4981: prompt time in the speed": (
        CASES + "test_40_a_long_prompt_is_not_in_the_decode_rate_and_the_servers_own_times_are_kept_beside",
    ),
    # parsing
    "aiperf 368: events of one read as one": (
        CASES + "test_42_three_events_of_one_write_are_three_events_of_one_read",
    ),
    "evalscope 1102: carriage returns": (
        CASES + "test_43_carriage_returns_at_the_border_of_a_read_change_nothing",
        "runners/load/test_splits.py::"
        "test_any_split_of_the_bytes_gives_the_same_row_and_each_event_the_stamp_of_its_read",
    ),
    "evalscope 1474: ids and names": (CASES + "test_45_ids_names_and_retry_lines_change_nothing",),
    "inference-perf 283; TensorRT-LLM 13952; aiohttp 4453: long lines": (
        CASES + "test_47_and_50_a_long_event_is_taken_up_to_a_stated_limit",
    ),
    "vllm 39963: the reader holds the server up": (
        CASES + "test_48_large_events_meet_no_back_pressure_and_the_delay_of_reading_is_recorded",
    ),
    # errors
    "vllm 14795: a stream of nothing": (CASES + "test_52_a_stream_of_the_end_mark_alone_is_empty",),
    "guidellm 444: failures in the means": (
        CASES + "test_53_instant_failures_do_not_pull_the_averages_and_are_loud",
        SUMMARY + "test_failures_stand_beside_latencies_and_never_in_them",
    ),
    "vllm 26478: failures not told": (CASES + "test_55_the_number_of_failures_is_the_first_line_of_the_report",),
    "guidellm 752: tool calls of null": (CASES + "test_57_tool_calls_of_null_are_nothing",),
    # load
    "vllm 21104: the rate drifts": (
        LOADS + "test_58_two_hundred_requests_a_second_are_sent_as_two_hundred_and_the_lag_is_told",
    ),
    "vllm 7241, 14513; gpustack 2324: a hundred connections": (
        LOADS + "test_60_a_concurrency_of_three_hundred_is_what_the_server_sees",
    ),
    "inference-perf 319: 45 became 74": (
        "runners/test_shards.py::test_45_in_flight_over_two_processes_are_45_at_the_server",
        "runners/test_shards.py::test_the_shares_of_any_number_of_shards_add_up_to_the_whole",
    ),
    "vllm 43212: think time without the answer's": (
        LOADS + "test_63_a_turn_is_sent_at_its_place_in_the_schedule_whatever_the_answer_took",
        LOADS + "test_63_a_turn_waits_for_its_answer_and_the_think_time_where_these_take_longer",
    ),
    "vllm 7935; tt-inference-server 190: the client's own time grows": (
        BENCH + "test_the_clients_own_error_is_measured_at_each_load_and_kept",
        "runners/load/test_calibrate.py::test_an_error_too_large_beside_what_was_measured_limits_the_claim",
    ),
    "guidellm 526: a late start": (
        "runners/test_shards.py::test_all_processes_begin_at_the_agreed_moment",
        "runners/load/test_stage.py::test_the_first_requests_of_a_schedule_are_sent_when_they_are_due",
    ),
    "guidellm 270: prompts built while the load runs": (
        "runners/load/test_supply.py::test_70_prompts_are_built_before_their_time_and_not_when_they_are_sent",
    ),
    "vllm-omni 1374, 1841; TensorRT-LLM 5815: a kept connection dies": (
        BENCH + "test_a_kept_connection_that_dies_before_any_byte_is_retried_once_and_counted",
        HERE + "test_a_kept_connection_that_died_before_any_byte_is_flagged_and_one_that_died_later_is_not_sent_again",
    ),
    "vllm 11167, 13082: requests vanish": (
        SUMMARY + "test_planned_is_always_the_sum_of_its_parts",
        BENCH + "test_a_server_that_dies_ends_the_run_with_every_planned_request_counted",
    ),
    "vllm 54227, 52884, 53920, 20083; inference-perf 340: prompts that were cached": (
        LOADS + "test_75_and_77_two_runs_of_one_seed_share_no_prompt_and_a_repeated_one_is_found_out",
        "runners/test_shards.py::test_each_planned_request_is_sent_and_counted_once_and_no_prompt_twice",
    ),
    "LMBenchmark 35: warm-up serves the measured": (LOADS + "test_78_what_the_warmup_sent_serves_no_measured_prefix",),
    "dynamo 14254: what a replay means": (
        LOADS + "test_80_a_replay_states_its_mapping_and_the_reuse_that_it_achieved",
    ),
    "inference-perf 491, 383: lengths of shared prefixes": (
        LOADS + "test_82_shared_prefixes_have_the_lengths_asked_for_in_every_class",
    ),
    # proxies and sums
    "dstack 4269: a proxy that keeps 16 KB back": (HERE + "test_a_proxy_that_passes_a_stream_on_in_blocks_is_noticed",),
    "sglang 29251: a router changes TTFT": (
        "compare/test_comparison.py::test_a_slower_run_is_worse_in_latency_and_in_throughput",
        "compare/test_setups.py::test_only_fields_that_differ_are_listed_by_their_path",
    ),
    "openai_trtllm 53: nothing went well": (
        SUMMARY + "test_without_one_success_the_report_is_written_and_nothing_is_zero",
    ),
    "guidellm 912, 707: shifted columns": (
        "reports/test_sheets.py::test_every_row_has_the_headers_columns_whatever_it_leaves_out",
        "reports/test_results.py::test_a_wide_sheet_has_a_row_per_stage_with_every_measurement_under_its_own_name",
    ),
    "TensorRT-LLM 8391; nm-vllm 156: a fixed limit on noise": (
        "compare/test_intervals.py::test_pure_noise_is_called_a_difference_in_about_one_seed_of_twenty",
        "compare/test_comparison.py::test_stages_of_different_kinds_are_refused_with_the_reason",
    ),
    "agentic-coding-harness 32: means of the server's histograms": (
        "runners/server/test_summary.py::test_percentiles_of_the_servers_own_times_come_from_the_growth_of_its_buckets",
    ),
    "evalscope 1499: whole answers among streams": (
        SUMMARY + "test_answers_that_were_not_streamed_have_a_latency_and_no_ttft",
        CASES + "test_108_a_server_that_ignores_stream_is_told_apart_and_has_no_first_token",
    ),
    "CR genai-bench: sums and duration of different windows": (
        SUMMARY + "test_warmup_requests_are_load_but_not_planned_and_not_in_latencies",
        SUMMARY + "test_with_a_constant_length_request_rate_times_length_is_token_rate",
    ),
    "CR sglang: the end waits for a page": (HERE + "test_a_page_of_the_server_that_takes_seconds_is_in_no_rate",),
    "CR inference-perf: constant is Poisson": ("runners/load/test_arrivals.py::test_constant_means_equal_gaps",),
    "CR aiperf: holes in a closed loop": (
        SUMMARY + "test_a_closed_loop_with_a_hole_tells_its_mean_concurrency_and_idle_share",
    ),
    # later ones
    "endpoints 34: a rate of refused requests": (
        SUMMARY + "test_without_one_success_the_report_is_written_and_nothing_is_zero",
        BENCH + "test_a_closed_port_is_not_usable_and_the_words_say_what_to_do",
    ),
    "endpoints 86: a cold start": (LOADS + "test_103_a_cold_start_falls_into_the_warmup_which_is_not_drained",),
    "bifrost 4542: all events at the end": (HERE + "test_a_gateway_that_gives_all_at_the_end_has_no_time_per_token",),
    "GenAIEval 238: a whole answer as a stream": (
        CASES + "test_108_a_server_that_ignores_stream_is_told_apart_and_has_no_first_token",
    ),
    "CR endpoints: a stamp taken behind a queue": (
        HERE + "test_a_loop_that_stalls_reads_late_and_its_stamps_are_true_all_the_same",
    ),
}


def test_every_test_that_is_named_here_exists():
    assert missing(name for names in PROVEN.values() for name in names) == []


# those that stand here


def drive(server: Server, count: int, concurrency: int = 1, model: str = "m", on_tick=None):
    """(rows, engine) of so many requests; each prompt is the request's number."""
    requests = Requests(base_endpoint(server.url), Target(server.url, model))
    finished: list[Exchange] = []
    numbers = iter(range(count))
    engine = Engine(destination(requests.endpoint), TIMEOUTS, finished.append)
    try:
        engine.drive(
            ClosedLoop(concurrency, Span(0, requests=count)),
            lambda _: Exchange(requests.build(str(number := next(numbers)), 8), index=number),
            drain_s=5,
            on_tick=on_tick,
        )
    finally:
        engine.close()
    return [Answer(exchange, requests.form).row() for exchange in finished], engine


def blocks(sizes: list[int], pause_s: float):
    """Token events of 100 bytes that a proxy passes on in blocks."""

    def script(wire: Wire) -> None:
        wire.head()
        for size in sizes:
            time.sleep(pause_s)
            wire.chunk(b"".join(sse(content("word ")) for _ in range(size)))
        wire.finish(tokens=sum(sizes))

    return script


def test_a_proxy_that_passes_a_stream_on_in_blocks_is_noticed():
    with serving({"m": blocks([160] * 4, 0.05)}) as server:
        rows, _ = drive(server, 3)
    result = stage(rows)
    assert "itl_ms" not in result["metrics"]
    words = {item["code"]: item["text"] for item in result["reasons"]}["itl_not_observable"]
    assert "came together with the one before" in words
    # 160 tokens came with the first block: what is left was decoded in the three pauses behind it
    assert result["metrics"]["tpot_ms"]["mean"] == pytest.approx(150 / 480, rel=0.3)


def test_a_gateway_that_gives_all_at_the_end_has_no_time_per_token():
    with serving({"m": blocks([100], 0.2)}) as server:
        rows, _ = drive(server, 1)
    result = stage(rows)
    assert not {"itl_ms", "tpot_ms", "interactivity_tokens_per_s"} & set(result["metrics"])
    assert result["metrics"]["ttft_ms"]["mean"] == pytest.approx(result["metrics"]["e2e_ms"]["mean"], abs=1)
    assert "itl_not_observable" in {item["code"] for item in result["reasons"]}


def test_a_loop_that_stalls_reads_late_and_its_stamps_are_true_all_the_same():
    sent_ns: dict[str, int] = {}

    def script(wire: Wire) -> None:
        time.sleep(0.1)
        prompt = wire.request["messages"][0]["content"]
        wire.head()
        time.sleep(0.03 + 0.005 * int(prompt))
        sent_ns[prompt] = time.monotonic_ns()
        wire.words("a", pause_s=0.2)
        wire.finish()

    with serving({"m": script}) as server:
        rows, engine = drive(server, 20, 20, on_tick=lambda _: time.sleep(0.05))
    late_ms = [(row["first_token_ns"] - sent_ns[str(row["index"])]) / 1e6 for row in rows]
    assert len(rows) == 20
    assert max(engine.read_delays_ns()) > 30e6
    assert -0.1 < np.median(late_ms) < 5


def test_a_kept_connection_that_died_before_any_byte_is_flagged_and_one_that_died_later_is_not_sent_again():
    calls: list[str] = []

    def script(wire: Wire) -> None:
        prompt = wire.request["messages"][0]["content"]
        calls.append(prompt)
        if prompt == "1" and calls.count("1") == 1:
            wire.sock.close()
            return
        wire.head()
        wire.words("a")
        if prompt == "2":
            wire.reset()
            return
        wire.finish()

    with serving({"keep": script}) as server:
        rows, _ = drive(server, 3, model="keep")
    assert [(row["outcome"], row["retried"]) for row in rows] == [("ok", False), ("ok", True), ("reset", False)]
    assert calls == ["0", "1", "1", "2"]
    assert stage(rows)["flags"]["retried"] == 1


class SlowPages(Server):
    def page(self, wire: Wire, head: bytes) -> None:
        time.sleep(0.7)
        super().page(wire, head)


def test_a_page_of_the_server_that_takes_seconds_is_in_no_rate(tmp_path):
    def script(wire: Wire) -> None:
        wire.head()
        time.sleep(0.05)
        wire.words("a", "b")
        wire.finish()

    server = SlowPages({"m": script})
    try:
        subprocess.run(
            [sys.executable, "-m", "runners", "bench", "--url", server.url, "--model", "m", "--requests", "40",
             "--power", "none", "--calibrate", "0", "--out", str(tmp_path)],
            cwd=ROOT, check=True, capture_output=True, timeout=60,
        )  # fmt: skip
    finally:
        server.close()
    result = json.loads((tmp_path / "summary.json").read_text())["stages"][0]
    ends_s = pq.read_table(tmp_path / "requests.parquet")["last_token_ns"].to_numpy() / 1e9
    rate = (len(ends_s) - 1) / (ends_s.max() - ends_s.min())
    assert result["metrics"]["request_per_s"]["mean"] == pytest.approx(rate, rel=0.1)
