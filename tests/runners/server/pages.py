"""Short metrics pages in the form of each engine."""

VLLM = """\
# HELP python_info Python platform information
# TYPE python_info gauge
python_info{implementation="CPython",version="3.11.7"} 1.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 7.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.25
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.9
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 4000.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1000.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 3.93e+03
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.79e+09
# TYPE vllm:prompt_tokens_cached_total counter
vllm:prompt_tokens_cached_total{engine="0",model_name="m"} 1536.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 1484.0
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 30.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 12.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 10.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="m"} 30.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 40.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 40.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 12.0
# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3",model_name="m"} 40.0
vllm:request_queue_time_seconds_bucket{engine="0",le="+Inf",model_name="m"} 40.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="m"} 1.5
"""

SGLANG = """\
# HELP sglang:prompt_tokens_total Number of prefill tokens processed.
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="m"} 8128.0
sglang:generation_tokens_total{model_name="m"} 7557.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 100.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 20.0
sglang:num_running_reqs{model_name="m",tp_rank="0"} 8.0
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 4.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.28
sglang:num_retracted_requests_total{model_name="m"} 1.0
sglang:queue_time_seconds_bucket{le="0.1",model_name="m"} 5.0
sglang:queue_time_seconds_bucket{le="+Inf",model_name="m"} 5.0
sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="m"} 5.0
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="m"} 5.0
"""

TGI = """\
# TYPE tgi_queue_size gauge
tgi_queue_size 3
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 6
# TYPE tgi_request_input_length histogram
tgi_request_input_length_bucket{le="100"} 5
tgi_request_input_length_bucket{le="+Inf"} 5
tgi_request_input_length_sum 425
tgi_request_input_length_count 5
# TYPE tgi_request_generated_tokens histogram
tgi_request_generated_tokens_sum 160
tgi_request_generated_tokens_count 5
tgi_request_skipped_tokens_sum 9
tgi_request_queue_duration_bucket{le="0.001"} 4
tgi_request_queue_duration_bucket{le="+Inf"} 5
tgi_request_queue_duration_sum 0.75
"""

LLAMACPP = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 193
llamacpp:prompt_tokens_cached_total 288
llamacpp:tokens_predicted_total 192
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
"""
