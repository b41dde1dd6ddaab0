"""What is read of a server's metrics page, in one vocabulary for all engines."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a number is to be read, and how the series of several workers or ranks become one: counters, histograms and
    gauges are added up, shares are averaged.
    """

    GAUGE = "gauge"
    SHARE = "share"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class ServerMetric:
    key: str
    label: str
    unit: str
    kind: Kind
    help: str


SERVER_METRICS: tuple[ServerMetric, ...] = (
    ServerMetric("requests_running", "Running", "requests", Kind.GAUGE, "Requests that the engine computes on."),
    ServerMetric("requests_queued", "Queue", "requests", Kind.GAUGE, "Requests that wait for the engine's scheduler."),
    ServerMetric("kv_use", "KV cache in use", "share", Kind.SHARE, "Share of the KV cache that holds tokens in use."),
    ServerMetric("prompt_tokens", "Prompt tokens", "tok", Kind.COUNTER, "Prompt tokens, those from a cache included."),
    ServerMetric(
        "computed_tokens", "Prompt tokens computed", "tok", Kind.COUNTER, "Prompt tokens that no cache provided."
    ),
    ServerMetric("cached_tokens", "Prompt tokens cached", "tok", Kind.COUNTER, "Prompt tokens that a cache provided."),
    ServerMetric("generated_tokens", "Generated tokens", "tok", Kind.COUNTER, "Tokens that the engine generated."),
    ServerMetric(
        "prefix_queried_tokens", "Prefix cache, asked", "tok", Kind.COUNTER, "Tokens looked up in the prefix cache."
    ),
    ServerMetric("prefix_hit_tokens", "Prefix cache, hit", "tok", Kind.COUNTER, "Of those, the ones that were there."),
    ServerMetric(
        "preemptions", "Preemptions", "requests", Kind.COUNTER, "Requests put back because the KV cache was full."
    ),
    ServerMetric("drafted_tokens", "Drafted tokens", "tok", Kind.COUNTER, "Tokens proposed by speculative decoding."),
    ServerMetric("accepted_tokens", "Accepted tokens", "tok", Kind.COUNTER, "Of those, the ones that were kept."),
    ServerMetric("routed_requests", "Routed", "requests", Kind.COUNTER, "Requests for which a router chose an engine."),
    ServerMetric("sent_on_requests", "Sent on", "requests", Kind.COUNTER, "Of those, the ones asked of a large model."),
    ServerMetric(
        "upstream_requests", "Asked of engines", "requests", Kind.COUNTER, "Requests that a router put to an engine."
    ),
    ServerMetric("ttft_s", "TTFT at the server", "s", Kind.HISTOGRAM, "From a request's arrival to its first token."),
    ServerMetric("queue_s", "Time in the queue", "s", Kind.HISTOGRAM, "From a request's arrival to its scheduling."),
)

BY_KEY = {metric.key: metric for metric in SERVER_METRICS}
