"""15: which replica gets a request, and what that does to their prefix caches."""

from observatory.studies.ready_made.base import MODEL, ReadyMade, Short, Sketch, llamacpp, router

_PROMPT, _SHARED, _GROUPS, _REQUESTS = 384, 320, 8, 48
_SLOTS = 6
_REPLICA = llamacpp(MODEL, 1, n_parallel=_SLOTS, n_ctx=_SLOTS * 1024, cache_ram_mib=0)
_WHOLE = llamacpp(MODEL, 2, n_parallel=2 * _SLOTS, n_ctx=2 * _SLOTS * 1024, cache_ram_mib=0)
_PREFILL_TOKENS_PER_S = 400

LOAD_BALANCING = ReadyMade(
    slug="load-balancing",
    number=15,
    title="Load balancing",
    question="Which replica should a request go to when prompts share their beginnings?",
    arms=(
        Sketch("round robin", router("round-robin", _REPLICA, _REPLICA)),
        Sketch("least outstanding", router("least-outstanding", _REPLICA, _REPLICA)),
        Sketch("prefix affinity", router("prefix-affinity", _REPLICA, _REPLICA, prefix_bytes=512, overload=2)),
        Sketch("one engine, both cores", _WHOLE, theory={"prefill_tokens_per_s": 2 * _PREFILL_TOKENS_PER_S}),
    ),
    spec={
        "workload": {
            "input_tokens": _PROMPT,
            "output_tokens": 16,
            "source": {"kind": "prefixes", "groups": _GROUPS, "prefix_tokens": _SHARED, "zipf": 0},
        },
        "load": {"levels": [4], "requests": _REQUESTS, "warmup_s": 0},
        "power": {"idle_s": 2},
    },
    short=Short({"load": {"requests": 12}, "workload": {"output_tokens": 8}}, arms=("round robin", "prefix affinity")),
    measures=(
        {"metric": "ttft_ms", "statistic": "mean"},
        {"metric": "cached_share"},
        {"metric": "output_tokens_per_s"},
        {"metric": "e2e_ms", "statistic": "p90"},
    ),
    prediction={
        "calculator": "prefix-cache",
        "output": "ttft_ms",
        "as": "ratio",
        # What the caches really served; a rate of its own for one thread and for two is all that is left to assume.
        "inputs": {
            "prompt_tokens": _PROMPT,
            "shared_tokens": _PROMPT - 1,
            "hit_rate": "arm.cached_share * 0.01",
            "prefill_tokens_per_s": _PREFILL_TOKENS_PER_S,
        },
    },
    smallest=10,
    look_for="There are more prefixes than slots in one replica: round robin brings all to both, and each pushes out "
    "what it needs next. Affinity keeps each prefix at one replica, whose slots hold its half; it loses where the hash "
    "is uneven, and then the bound on overload sends some elsewhere. Theory takes the share of cached tokens as it was "
    "measured: what an arm takes beyond the prediction is waiting behind others.",
    limits="Two replicas of one thread each share two cores, memory and cache: they gain nothing over one engine with "
    "both, which is the last arm. Requests in flight share few prefixes: a prompt whose prefix another slot just "
    "reads finds it in no cache. Without shared beginnings the policies hardly differ here.",
)
