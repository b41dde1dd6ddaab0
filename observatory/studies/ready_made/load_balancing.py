"""15: which replica gets a request, and what that does to their prefix caches."""

from observatory.studies.ready_made.base import MODEL, Json, ReadyMade, Short, Sketch, llamacpp, router

_PROMPT, _SHARED, _GROUPS, _REQUESTS = 384, 320, 8, 48
_SLOTS = 4
_REPLICA = llamacpp(MODEL, 1, n_parallel=_SLOTS, n_ctx=_SLOTS * 1024, cache_ram_mib=0)
_WHOLE = llamacpp(MODEL, 2, n_parallel=2 * _SLOTS, n_ctx=2 * _SLOTS * 1024, cache_ram_mib=0)
#: Each prefix is read once; where all come to both replicas, each holds half of them at a time.
_SEEN = 1 - _GROUPS / _REQUESTS
_SCATTERED: Json = {"hit_rate": round((1 - 2 * _GROUPS / _REQUESTS) * _SLOTS / _GROUPS, 3)}
_GATHERED: Json = {"hit_rate": round(_SEEN, 3)}

LOAD_BALANCING = ReadyMade(
    slug="load-balancing",
    number=15,
    title="Load balancing",
    question="Which replica should a request go to when prompts share their beginnings?",
    arms=(
        Sketch("round robin", router("round-robin", _REPLICA, _REPLICA), theory=_SCATTERED),
        Sketch("least outstanding", router("least-outstanding", _REPLICA, _REPLICA), theory=_SCATTERED),
        Sketch(
            "prefix affinity",
            router("prefix-affinity", _REPLICA, _REPLICA, prefix_bytes=512, overload=4),
            theory=_GATHERED,
        ),
        Sketch("one engine, both cores", _WHOLE, theory={**_GATHERED, "prefill_tokens_per_s": 800}),
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
        {"metric": "e2e_ms", "statistic": "p99"},
    ),
    prediction={
        "calculator": "prefix-cache",
        "output": "ttft_ms",
        "as": "ratio",
        "inputs": {"prompt_tokens": _PROMPT, "shared_tokens": _SHARED, "prefill_tokens_per_s": 400},
    },
    smallest=10,
    look_for="There are more prefixes than slots in one replica: round robin brings all to both, and each pushes out "
    "what it needs next. Affinity keeps each prefix at one replica, whose slots hold its half; it loses where the hash "
    "is uneven, and then the bound on overload sends some elsewhere. The share of cached tokens tells.",
    limits="Two replicas of one thread each share two cores, memory and cache: they gain nothing over one engine with "
    "both, which is the last arm. The prediction takes replicas as ideal: even hashing, no wait for a slot, no "
    "neighbour. Without shared beginnings the policies hardly differ here.",
)
