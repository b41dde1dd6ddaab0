from runners.server.engines.base import EngineMetrics

LLAMACPP = EngineMetrics(
    engine="llama.cpp",
    prefix="llamacpp:",
    names={
        "requests_running": ("llamacpp:requests_processing",),
        "requests_queued": ("llamacpp:requests_deferred",),
        "kv_use": ("llamacpp:kv_cache_usage_ratio",),  # gone from newer versions
        "computed_tokens": ("llamacpp:prompt_tokens_total",),
        "cached_tokens": ("llamacpp:prompt_tokens_cached_total",),
        "generated_tokens": ("llamacpp:tokens_predicted_total",),
        "drafted_tokens": ("llamacpp:spec_decode_num_draft_tokens_total",),
        "accepted_tokens": ("llamacpp:spec_decode_num_accepted_tokens_total",),
    },
    how="start llama-server with --metrics",
)
