"""11: what leaving layers out buys."""

from observatory.studies.questions import BASIC
from observatory.studies.ready_made.base import MODEL, Json, ReadyMade, Short, Sketch, llamacpp

_LAYERS = 30
_EMBEDDING_B, _LAYER_B = 0.0283, 0.00354


def _kept(layers: int) -> Json:
    return {"kept_share": round((_EMBEDDING_B + layers * _LAYER_B) / (_EMBEDDING_B + _LAYERS * _LAYER_B), 4)}


SMALLER_MODEL = ReadyMade(
    slug="smaller-model",
    number=11,
    title="Smaller model",
    question="How much faster is a model of which a third and two thirds of the layers are left out?",
    arms=(
        Sketch("30 layers", llamacpp(f"{MODEL}:Q8_0", n_parallel=1, n_ctx=2048), {}, _kept(30), precision="q8_0"),
        *(
            Sketch(
                f"{layers} layers",
                llamacpp(f"{MODEL}:Q8_0:layers={layers}", n_parallel=1, n_ctx=2048),
                {},
                _kept(layers),
                precision="q8_0",
            )
            for layers in (20, 10)
        ),
    ),
    spec={
        "workload": {"input_tokens": 128, "output_tokens": 64},
        "load": {"levels": [1], "requests": 16, "warmup_s": 2},
        "power": {"idle_s": 2},
    },
    short=Short(
        {"load": {"requests": 7, "warmup_s": 0}, "workload": {"output_tokens": 24}}, arms=("30 layers", "10 layers")
    ),
    measures=(
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "j_per_output_token"},
    ),
    prediction={
        "calculator": "smaller-model",
        "output": "speedup",
        "as": "speedup",
        "inputs": {"parameters_b": 0.1345, "weight_bits": 8.5, "bandwidth_gb_s": 10, "peak_tflops": 1},
    },
    quality=BASIC,
    look_for="Time per token and time to the first token fall with the parameters that are left; the embedding is not "
    "left out, so that they fall by less than the layers.",
    limits="The shortened models were not taught again: what they answer is nearly worthless, as the questions show. "
    "A distilled model of that size would lose less.",
)
