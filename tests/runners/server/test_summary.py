"""What follows from scraped pages, with pages of known numbers."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from runners.load.records import SCHEMA
from runners.load.rows import StageRows, Window
from runners.server.engines import engine_of, keys_of
from runners.server.samples import SCHEMA as SERVER_SCHEMA
from runners.server.summary import ServerSide, reasons
from tests.runners.server import pages

S = 1_000_000_000


def side(scrapes: Sequence[tuple[int, str]], marks: Sequence[int | None]) -> ServerSide:
    engine = engine_of(scrapes[0][1])
    assert engine is not None
    found = [(t_ns, key, sample) for t_ns, page in scrapes for key, sample in engine.read(page)]
    rows = [{"t_ns": t, "metric": key, "labels": sample.labels, "value": sample.value} for t, key, sample in found]
    keys = keys_of((key, sample) for _, key, sample in found)
    account = {"engine": engine.engine, "keys": keys, "marks_ns": list(marks)}
    return ServerSide(pa.Table.from_pylist(rows, schema=SERVER_SCHEMA), account)


def requests(*counts: tuple[int, int, int], outcome: str = "ok", **more: Any) -> StageRows:
    rows = [
        {"stage": 0, "index": i, "warmup": False, "outcome": outcome, "sent_ns": 1, "end_ns": 2, "input_tokens": a,
         "cached_tokens": b, "output_tokens": c, **more}
        for i, (a, b, c) in enumerate(counts)
    ]  # fmt: skip
    return StageRows(pa.Table.from_pylist(rows, schema=SCHEMA))


def llama(generated: int, computed: int = 0, cached: int = 0, running: int = 0) -> str:
    return (
        f"llamacpp:prompt_tokens_total {computed}\nllamacpp:prompt_tokens_cached_total {cached}\n"
        f"llamacpp:tokens_predicted_total {generated}\nllamacpp:requests_processing {running}\n"
    )


def stage(found: ServerSide, rows: StageRows, window: Window | None = None) -> dict[str, Any]:
    account = found.of_stage(rows, 0, window)
    assert account is not None
    return account


def verdicts(account: dict[str, Any]) -> dict[str, str]:
    return {item["key"]: item["verdict"] for item in account["agreement"]}


def test_equal_counts_agree_and_warn_of_nothing():
    found = side([(S, llama(100, 50, 8)), (9 * S, llama(132, 92, 20))], [S, 9 * S])
    account = stage(found, requests((27, 6, 16), (27, 6, 16)))
    assert verdicts(account) == {"computed_tokens": "ok", "cached_tokens": "ok", "generated_tokens": "ok"}
    assert reasons(account) == []
    assert [(item["server"], item["client"]) for item in account["agreement"]] == [(42, 42), (12, 12), (32, 32)]


def test_a_server_that_counted_more_served_others_too():
    account = stage(side([(S, llama(0)), (9 * S, llama(40))], [S, 9 * S]), requests((0, 0, 16), (0, 0, 16)))
    assert verdicts(account)["generated_tokens"] == "other_traffic"
    [warning] = reasons(account)
    assert warning["code"] == "other_traffic"
    assert "8 more than we did" in warning["text"]


def test_a_server_that_counted_fewer_may_be_one_of_several():
    account = stage(side([(S, llama(0)), (9 * S, llama(16))], [S, 9 * S]), requests((0, 0, 16), (0, 0, 16)))
    assert verdicts(account)["generated_tokens"] == "fewer"
    assert [item["code"] for item in reasons(account)] == ["server_counts_differ"]


@pytest.mark.parametrize("change", [{"outcome": "cancelled"}, {"output_tokens": None}])
def test_where_ours_is_not_whole_nothing_is_claimed(change):
    account = stage(side([(S, llama(0)), (9 * S, llama(40))], [S, 9 * S]), requests((0, 0, 16), (0, 0, 16), **change))
    assert verdicts(account)["generated_tokens"] == "unknown"
    assert reasons(account) == []


def test_without_a_mark_on_each_side_of_the_stage_counts_are_not_compared():
    found = side([(S, llama(0)), (5 * S, llama(16)), (9 * S, llama(40))], [S, None])
    account = stage(found, requests((0, 0, 40)), Window("steady", S, 9 * S))
    assert account["agreement"] == []
    assert account["counters"]["generated_tokens"] == 40


def test_a_server_that_began_anew_has_no_growth():
    found = side([(S, llama(100)), (5 * S, llama(3)), (9 * S, llama(120))], [S, 9 * S])
    account = stage(found, requests((0, 0, 20)))
    assert account["counters"]["generated_tokens"] is None
    assert verdicts(account)["generated_tokens"] == "unknown"


def test_gauges_and_growth_are_of_the_window_and_not_of_what_lies_around_it():
    scrapes = [(t * S, llama(10 * t, running=t)) for t in range(1, 10)]
    account = stage(side(scrapes, [S, 9 * S]), requests((0, 0, 80)), Window("steady", round(2.5 * S), round(6.5 * S)))
    assert account["span"]["seconds"] == 3.0
    assert account["scrapes"] == 4
    assert account["gauges"]["requests_running"] == {"mean": 4.5, "max": 6.0}
    assert account["counters"]["generated_tokens"] == 30
    assert verdicts(account)["generated_tokens"] == "ok"


def test_a_window_too_short_for_two_readings_gives_the_whole_stage():
    found = side([(S, llama(0)), (4 * S, llama(5)), (9 * S, llama(40))], [S, 9 * S])
    assert stage(found, requests((0, 0, 40)), Window("steady", 3 * S, 5 * S))["span"]["seconds"] == 8.0


def test_ranks_are_added_up_and_shares_averaged():
    found = side([(S, pages.VLLM), (9 * S, pages.VLLM)], [S, 9 * S])
    gauges = stage(found, requests((0, 0, 0)))["gauges"]
    assert gauges["requests_running"]["mean"] == 5
    assert gauges["requests_queued"]["mean"] == 7
    assert gauges["kv_use"]["max"] == 0.375


def grown_vllm() -> str:
    page = pages.VLLM
    for series, before, after in (
        ('time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"}', "10.0", "20.0"),
        ('time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="m"}', "30.0", "120.0"),
        ('time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"}', "40.0", "140.0"),
        ('time_to_first_token_seconds_sum{engine="0",model_name="m"}', "12.0", "42.0"),
        ('prefix_cache_queries_total{engine="0",model_name="m"}', "4000.0", "4800.0"),
        ('prefix_cache_hits_total{engine="0",model_name="m"}', "1000.0", "1200.0"),
        ('spec_decode_num_draft_tokens_total{engine="0",model_name="m"}', "30.0", "130.0"),
        ('spec_decode_num_accepted_tokens_total{engine="0",model_name="m"}', "12.0", "52.0"),
    ):
        assert f"vllm:{series} {before}" in page
        page = page.replace(f"vllm:{series} {before}", f"vllm:{series} {after}")
    return page


def test_percentiles_of_the_servers_own_times_come_from_the_growth_of_its_buckets():
    account = stage(side([(S, pages.VLLM), (9 * S, grown_vllm())], [S, 9 * S]), requests((0, 0, 0)))
    ttft = account["histograms"]["ttft_s"]
    assert (ttft["n"], ttft["mean"]) == (100, 0.3)  # 10 below 0.1 s, 80 between 0.1 and 0.5 s, 10 above
    assert ttft["p50"] == pytest.approx(0.1 + 0.4 * 40 / 80)
    assert ttft["p90"] == pytest.approx(0.5)
    assert ttft["p99"] is None  # in the open bucket
    assert "queue_s" not in account["histograms"]  # nothing was added to it


def test_hits_and_acceptance_are_shares_of_what_was_asked_and_drafted_meanwhile():
    account = stage(side([(S, pages.VLLM), (9 * S, grown_vllm())], [S, 9 * S]), requests((0, 0, 0)))
    assert account["shares"] == {"prefix_hit_share": 0.25, "accepted_share": 0.4}
