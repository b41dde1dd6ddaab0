from runners.server.engines.base import EngineMetrics

#: Speculation is told only as gauges of the last interval, of which no count can be made.
SGLANG = EngineMetrics(
    engine="SGLang",
    prefix="sglang:",
    names={
        "requests_running": ("sglang:num_running_reqs",),
        "requests_queued": ("sglang:num_queue_reqs",),
        "kv_use": ("sglang:token_usage",),
        "prompt_tokens": ("sglang:prompt_tokens_total",),
        "cached_tokens": ("sglang:cached_tokens_total",),
        "generated_tokens": ("sglang:generation_tokens_total",),
        "preemptions": ("sglang:num_retracted_requests_total",),
        "ttft_s": ("sglang:time_to_first_token_seconds",),
        "queue_s": ("sglang:queue_time_seconds",),
    },
    how="start SGLang with --enable-metrics",
)
