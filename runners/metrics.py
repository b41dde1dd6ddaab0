"""The one table of metrics: it feeds the command line, pages, charts, CSV and REST alike.

A definition has a version that is stored with each run; everything shown can be recomputed from the raw rows under a
newer one.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

DEFINITIONS_VERSION = 1


class Better(StrEnum):
    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class Mark(StrEnum):
    """Where a number comes from; shown beside it everywhere."""

    MEASURED = "measured"
    MODELLED = "modelled"
    ASSUMED = "assumed"


class Shape(StrEnum):
    """A distribution has percentiles over requests or gaps; a rate is one number for a window."""

    DISTRIBUTION = "distribution"
    RATE = "rate"


@dataclass(frozen=True)
class Metric:
    key: str
    label: str
    unit: str
    better: Better
    shape: Shape
    help: str


def _distribution(key: str, label: str, unit: str, better: Better, help: str) -> Metric:
    return Metric(key, label, unit, better, Shape.DISTRIBUTION, help)


def _rate(key: str, label: str, unit: str, better: Better, help: str) -> Metric:
    return Metric(key, label, unit, better, Shape.RATE, help)


METRICS: tuple[Metric, ...] = (
    _distribution(
        "ttft_ms",
        "TTFT",
        "ms",
        Better.LOWER,
        "Time to first token: from the first byte of the request handed to the socket to the first event that carries "
        "generated content (answer, reasoning, tool call or refusal). Connection time is not in it.",
    ),
    _distribution(
        "ttft_from_schedule_ms",
        "TTFT from schedule",
        "ms",
        Better.LOWER,
        "From the moment the arrival process wanted the request sent to its first token; larger than TTFT by the "
        "client's lag. In a closed loop the two differ by the time it takes to connect and send.",
    ),
    _distribution(
        "tpot_ms",
        "TPOT",
        "ms",
        Better.LOWER,
        "Time per output token after the first read: (last token − first token) / (output tokens − tokens that came "
        "with the first read). Missing for answers of one token, or of one read.",
    ),
    _distribution(
        "itl_ms",
        "Inter-token latency",
        "ms",
        Better.LOWER,
        "Gaps between consecutive tokens. An event of k tokens counts as k gaps of a k-th each. Not observable when "
        "most events arrive together in one read.",
    ),
    _distribution(
        "event_gap_ms",
        "Event gap",
        "ms",
        Better.LOWER,
        "Gaps between consecutive stream events that carry tokens, whatever number of tokens each holds.",
    ),
    _distribution(
        "e2e_ms",
        "End-to-end latency",
        "ms",
        Better.LOWER,
        "From the first byte of the request handed to the socket to the last token. A late usage chunk does not "
        "lengthen it.",
    ),
    _distribution(
        "interactivity_tokens_per_s",
        "Interactivity",
        "tok/s",
        Better.HIGHER,
        "Tokens per second that one user sees while the answer streams: 1 / TPOT, per request.",
    ),
    _distribution(
        "first_answer_ms",
        "Time to first answer",
        "ms",
        Better.LOWER,
        "From the first byte of the request handed to the socket to the first event with text of the answer: the time "
        "that a reader waits while a model reasons. Equal to TTFT where nothing comes before the answer.",
    ),
    _distribution(
        "task_ms",
        "Task latency",
        "ms",
        Better.LOWER,
        "From the first request of an agent's task to the last token of its last one, with the time its tools took.",
    ),
    _distribution(
        "input_tokens", "Input tokens", "tok", Better.NEITHER, "Prompt tokens per request, as the server counts them."
    ),
    _distribution(
        "output_tokens",
        "Output tokens",
        "tok",
        Better.NEITHER,
        "Generated tokens per request, reasoning included: the server's usage, else the model's tokenizer over the "
        "whole text, else unknown. Stream events are never called tokens.",
    ),
    _distribution(
        "reasoning_tokens",
        "Reasoning tokens",
        "tok",
        Better.NEITHER,
        "Tokens of reasoning per request, a part of the output tokens: the server's usage, else its running count when "
        "the last reasoning came, else unknown.",
    ),
    _distribution(
        "connect_ms",
        "Connect",
        "ms",
        Better.LOWER,
        "TCP and TLS set-up of requests that opened a connection of their own.",
    ),
    _distribution(
        "lag_ms", "Lag", "ms", Better.LOWER, "How much later than due the client handed the request to the socket."
    ),
    _rate(
        "request_per_s",
        "Request throughput",
        "req/s",
        Better.HIGHER,
        "Requests that ended well, each by the share of its time that lies inside the window, per second of window. "
        "Failures never count.",
    ),
    _rate(
        "output_tokens_per_s",
        "Output throughput",
        "tok/s",
        Better.HIGHER,
        "Output tokens of good requests whose stamps fall inside the window, per second of window.",
    ),
    _rate(
        "input_tokens_per_s",
        "Input throughput",
        "tok/s",
        Better.HIGHER,
        "Prompt tokens of good requests, by the share of their time to the first token inside the window, per second "
        "of window.",
    ),
    _rate("total_tokens_per_s", "Total throughput", "tok/s", Better.HIGHER, "Input plus output throughput."),
    _rate(
        "goodput_per_s",
        "Goodput",
        "req/s",
        Better.HIGHER,
        "Request throughput of those that met every bound of the SLO.",
    ),
    _rate(
        "goodput_share",
        "Goodput share",
        "%",
        Better.HIGHER,
        "Share of the planned requests of the window that ended well and met every bound of the SLO.",
    ),
    _rate("success_share", "Success share", "%", Better.HIGHER, "Good requests as a share of planned ones."),
    _rate(
        "cached_share",
        "Cached prompt tokens",
        "%",
        Better.NEITHER,
        "Share of the prompt tokens of good requests that the server says its prefix cache served.",
    ),
    _rate(
        "achieved_concurrency",
        "Achieved concurrency",
        "requests",
        Better.NEITHER,
        "Mean number of requests in flight: the sum of their time inside the window / the window.",
    ),
    _rate(
        "power_w",
        "Mean power",
        "W",
        Better.LOWER,
        "Mean IT power (accelerators and host, as far as the ledger has them) in the window.",
    ),
    _rate(
        "wh_per_query",
        "Energy per query",
        "Wh",
        Better.LOWER,
        "Mean: IT energy of the window / good requests that it served. The ledger names the layers inside.",
    ),
    _rate(
        "wh_per_query_median",
        "Energy per query, median",
        "Wh",
        Better.LOWER,
        "IT energy of the median request. The window's energy is measured; how it divides among requests is modelled: "
        "idle power by time in flight, the rest by prompt and output tokens at coefficients fitted to this run.",
    ),
    _rate(
        "j_per_output_token",
        "Energy per output token",
        "J/tok",
        Better.LOWER,
        "IT energy of the window / its output tokens.",
    ),
    _rate(
        "j_per_total_token",
        "Energy per token",
        "J/tok",
        Better.LOWER,
        "IT energy of the window / its input and output tokens together.",
    ),
    _rate(
        "usd_per_mtok_output",
        "Cost per M output tokens",
        "$/Mtok",
        Better.LOWER,
        "Price of the deployment per hour / output tokens per hour: the whole hour is charged to output tokens. Never "
        "to be added to the same figure for input tokens.",
    ),
    _rate(
        "usd_per_mtok_total",
        "Cost per M tokens",
        "$/Mtok",
        Better.LOWER,
        "Price of the deployment per hour / input and output tokens per hour.",
    ),
    _rate("usd_per_query", "Cost per query", "$", Better.LOWER, "Price of the window / good requests that it served."),
)

#: What stands beside the numbers of a run and comes from elsewhere.
BESIDE: tuple[Metric, ...] = (
    _rate(
        "accuracy",
        "Accuracy",
        "%",
        Better.HIGHER,
        "Right answers as a share of the tasks that were answered, from an evaluation of the same deployment.",
    ),
)

BY_KEY: dict[str, Metric] = {metric.key: metric for metric in (*METRICS, *BESIDE)}

STATISTICS = ("mean", "p50", "p90", "p95", "p99", "min", "max")

#: Smallest sample at which a 99 %-confident upper bound on the percentile exists.
PERCENTILE_MIN_N = {"p50": 7, "p90": 44, "p95": 90, "p99": 459, "p99.9": 4603}

_TIME_STEPS = ((1e3, "s"), (1.0, "ms"), (1e-3, "µs"))
_THIN_SPACE = "\u2009"


def significant(value: float, digits: int = 3) -> str:
    """``value`` with so many significant digits, thousands set apart by thin spaces; "–" for what is not finite."""
    if not isfinite(value):
        return "–"
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".split("e")[1])  # after rounding: 9.999 is 10.0
    decimals = digits - 1 - exponent
    return f"{round(value, decimals):,.{min(max(decimals, 0), 12)}f}".replace(",", _THIN_SPACE)


def display(value: float | None, unit: str) -> tuple[str, str]:
    """Text and unit as shown to people: times move to the unit that keeps them between 1 and 999; missing is a dash."""
    if value is None:
        return "–", ""
    if unit == "ms" and value != 0:
        for scale, name in _TIME_STEPS:
            if abs(value) >= scale:
                return significant(value / scale), name
        return significant(value * 1e3), "µs"
    return significant(value), unit
