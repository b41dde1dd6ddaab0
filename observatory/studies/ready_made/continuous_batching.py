"""3: whether requests may join a running batch."""

from observatory.studies.ready_made.base import ReadyMade, Short, Sketch, llamacpp

CONTINUOUS_BATCHING = ReadyMade(
    slug="continuous-batching",
    number=3,
    title="Continuous batching",
    question="How much sooner are requests that come one by one served when they may join a running batch?",
    arms=(
        Sketch("waits for the batch", llamacpp(n_parallel=4, n_ctx=4096, cont_batching=False)),
        Sketch("joins the batch", llamacpp(n_parallel=4, n_ctx=4096, cont_batching=True)),
    ),
    spec={
        "workload": {"input_tokens": 128, "output_tokens": 48},
        "load": {"arrivals": "poisson", "levels": [0.7], "requests": 60, "duration_s": 90, "warmup_s": 3},
        "power": {"idle_s": 2},
    },
    short=Short(
        {"load": {"requests": 12, "duration_s": 14, "levels": [1], "warmup_s": 1}, "workload": {"output_tokens": 32}}
    ),
    measures=(
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "event_gap_ms", "statistic": "max"},
        {"metric": "e2e_ms", "statistic": "p50"},
        {"metric": "output_tokens_per_s"},
    ),
    smallest=10,
    look_for="Joining shortens the wait of a newcomer and lengthens the worst gap of the streams that it joins: their "
    "tokens wait while its prompt is read.",
    limits="The load is light enough for two cores to keep up, so that throughput is set by the arrivals. At full "
    "load the gain in throughput is larger.",
)
