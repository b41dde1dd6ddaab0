from runners.server.engines.base import EngineMetrics

#: Tokens are told as histograms over requests, whose sums are the counts.
TGI = EngineMetrics(
    engine="TGI",
    prefix="tgi_",
    names={
        "requests_running": ("tgi_batch_current_size",),
        "requests_queued": ("tgi_queue_size",),
        "prompt_tokens": ("tgi_request_input_length_sum",),
        "generated_tokens": ("tgi_request_generated_tokens_sum",),
        "accepted_tokens": ("tgi_request_skipped_tokens_sum",),
        "queue_s": ("tgi_request_queue_duration",),
    },
    how="TGI serves it by itself, on --prometheus-port where that is set",
)
