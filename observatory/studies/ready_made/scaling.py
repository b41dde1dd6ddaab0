"""14: two cores in place of one, by threads, by tensor parallelism and by replicas."""

from typing import Any

from observatory.studies.ready_made.base import Json, ReadyMade, Short, Sketch, vllm

_IN_FLIGHT = 32
_LAYERS, _HIDDEN, _HEADS = 8, 768, 12
_PARAMETERS_B = 0.107
#: Heads that two workers can share out, which the packaged model's 9 are not; its tokenizer, and random weights.
_SHAPE: Json = {
    "num_hidden_layers": _LAYERS,
    "hidden_size": _HIDDEN,
    "intermediate_size": 3072,
    "num_attention_heads": _HEADS,
    "num_key_value_heads": 4,
    "head_dim": 64,
}
#: Threads of one engine share memory: nothing is sent.
_NOTHING_SENT: Json = {"link_gb_s": 1e6, "link_latency_us": 0}


def _arm(name: str, cores: tuple[int, ...], theory: Json, **options: Any) -> Sketch:
    recipe = vllm(
        cores=cores,
        load_format="dummy",
        hf_overrides=_SHAPE,
        served_model_name="random-107M",
        max_model_len=512,
        max_num_seqs=_IN_FLIGHT,
        enable_prefix_caching=False,
        **options,
    )
    return Sketch(name, recipe, theory=theory, precision="bf16")


SCALING = ReadyMade(
    slug="scaling",
    number=14,
    title="Tensor parallelism and replicas",
    question="How much of a second core becomes throughput, by threads, tensor parallelism and replicas?",
    arms=(
        _arm("one core", (0,), {"accelerators": 1}),
        _arm("two threads", (0, 1), {"accelerators": 2, **_NOTHING_SENT}),
        _arm("tensor parallel", (0, 1), {"accelerators": 2}, tensor_parallel_size=2),
        _arm("two replicas", (0, 1), {"accelerators": 1, "replicas": 2}, data_parallel_size=2),
    ),
    spec={
        "workload": {"input_tokens": 48, "output_tokens": 64},
        "load": {"levels": [_IN_FLIGHT], "requests": 128, "duration_s": 30, "warmup_s": 2},
        "power": {"idle_s": 2},
    },
    short=Short({"load": {"requests": 64, "duration_s": 15, "warmup_s": 0}}),
    measures=(
        {"metric": "output_tokens_per_s"},
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "j_per_output_token"},
    ),
    prediction={
        "calculator": "parallel",
        "output": "tokens_per_s",
        "as": "ratio",
        "inputs": {
            "parameters_b": _PARAMETERS_B,
            "weight_bits": 16,
            "layers": _LAYERS,
            "hidden": _HIDDEN,
            "batch": _IN_FLIGHT,
            "microbatches": 1,
            "bandwidth_gb_s": 10,
            "peak_tflops": 0.4,
            "link_gb_s": 5,
            "link_latency_us": 50,
        },
    },
    repeats=3,
    smallest=10,
    look_for="Efficiency is the throughput against that of one core, over two. Theory gives threads all of the second "
    "core, tensor parallelism all but its two all-reduces a layer, and replicas at the same load as much as "
    "arithmetic, not memory, is what a step waits for: each holds half of the batch and reads all of the weights.",
    limits="Two cores share one memory, the load generator and vLLM's own server processes, so that no way can double "
    "the throughput here. All-reduces go through memory in place of links, and are slow for so small a model: that "
    "tensor parallelism gains on accelerators is what the calculator shows, not this machine. Theory is given "
    "round figures for memory, arithmetic and links, not measured ones. Threads and tensor parallelism meet at every "
    "layer: what else runs on one core holds up both. Random weights: only speed is measured.",
)
