"""19: what guessing ahead costs and buys on vLLM, by what guesses."""

from typing import Any

from observatory.studies.questions import BASIC
from observatory.studies.ready_made.base import MODEL, Json, ReadyMade, Short, Sketch, vllm

_DRAFTED = 3
#: Weights that a guess reads against the model's 134.5 million: the output layer (28.3) and what comes before it.
_OF_MEDUSA, _OF_EAGLE, _OF_24_LAYERS = 0.21, 0.24, 0.84


def _arm(name: str, draft_cost: float, **speculation: Any) -> Sketch:
    drafting: Json = {"num_speculative_tokens": _DRAFTED, **speculation}
    return Sketch(
        name,
        vllm(max_model_len=1024, max_num_seqs=4, enable_prefix_caching=False, speculative_config=drafting),
        theory={"acceptance": "arm.accepted_share", "draft_cost": draft_cost, "drafted": _DRAFTED},
        precision="bf16",
    )


SPECULATION_VLLM = ReadyMade(
    slug="speculative-decoding-vllm",
    number=19,
    title="Speculative decoding on vLLM",
    question="What do heads, a draft model and n-grams cost, and which of them guesses well enough to pay?",
    arms=(
        Sketch(
            "plain",
            vllm(max_model_len=1024, max_num_seqs=4, enable_prefix_caching=False),
            theory={"drafted": 0},
            precision="bf16",
        ),
        _arm("n-gram", 0, method="ngram", prompt_lookup_max=4, prompt_lookup_min=2),
        _arm("24-layer draft", _OF_24_LAYERS, method="draft_model", model=f"{MODEL}:HF:layers=24"),
        _arm("Medusa heads", _OF_MEDUSA, method="medusa", model=f"{MODEL}:MEDUSA"),
        _arm("EAGLE layer", _OF_EAGLE, method="eagle", model=f"{MODEL}:EAGLE"),
    ),
    spec={
        "workload": {"input_tokens": 64, "output_tokens": 96},
        "load": {"levels": [1], "requests": 10, "warmup_s": 2},
        "power": {"idle_s": 2},
    },
    short=Short(
        {"load": {"requests": 7, "warmup_s": 0}, "workload": {"output_tokens": 48}},
        arms=("plain", "Medusa heads", "EAGLE layer"),
    ),
    measures=(
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "e2e_ms", "statistic": "p50"},
        {"metric": "j_per_output_token"},
    ),
    prediction={"calculator": "speculative", "output": "speedup_alone", "as": "speedup", "inputs": {}},
    quality=BASIC,
    repeats=3,
    smallest=10,
    look_for="Acceptance comes from the server's own counters. A method pays where what it guesses right outweighs "
    "what guessing and checking cost: heads and layers are cheap beside a draft model, and worth nothing untrained.",
    limits="Nobody trained these heads: Medusa's say again what the model itself says next, EAGLE's layer is random, "
    "so that what is measured is what they cost; with trained heads of your model, name their folder in an endpoint's "
    "recipe. The output layer is a fifth of this small model, which makes each guess dear. Two cores are bound by "
    "arithmetic, so that a check costs about as much as its tokens one by one; the prediction leaves that out.",
)
