from runners.server.engines.base import EngineMetrics

VLLM = EngineMetrics(
    engine="vLLM",
    prefix="vllm:",
    names={
        "requests_running": ("vllm:num_requests_running",),
        "requests_queued": ("vllm:num_requests_waiting",),
        "kv_use": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        "prompt_tokens": ("vllm:prompt_tokens_total",),
        "cached_tokens": ("vllm:prompt_tokens_cached_total",),
        "generated_tokens": ("vllm:generation_tokens_total",),
        "prefix_queried_tokens": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
        "prefix_hit_tokens": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        "preemptions": ("vllm:num_preemptions_total",),
        "drafted_tokens": ("vllm:spec_decode_num_draft_tokens_total",),
        "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens_total",),
        "ttft_s": ("vllm:time_to_first_token_seconds",),
        "queue_s": ("vllm:request_queue_time_seconds",),
    },
    how="vLLM serves it by itself, unless it was started with --disable-log-stats",
)
