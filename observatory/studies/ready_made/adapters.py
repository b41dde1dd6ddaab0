"""20: what adapters beside a model cost on vLLM: one, or several in the same batch."""

from typing import Any

from observatory.studies.ready_made.base import MODEL, Json, ReadyMade, Short, Sketch, vllm

_IN_FLIGHT, _RANK = 8, 8
#: Weights of the model, and of an adapter of rank 8 on all matrices of its layers: 30 x 8 x 10,176.
_PARAMETERS_B, _ADAPTER_B = 0.1345, 0.00244
_ADAPTERS = tuple(f"adapter-{number}" for number in range(1, 5))
_SIZE: Json = {"max_model_len": 512, "max_num_seqs": _IN_FLIGHT, "enable_prefix_caching": False}
#: What requests name where they name no adapter.
_MODEL = f"{MODEL}:HF"


def _asking(*models: str) -> Json:
    """Requests of a run name these in equal shares."""
    return {"workload": {"models": [{"name": name} for name in models]}}


def _reads(adapters: int) -> Json:
    """A step of so many; arithmetic, which is not what it waits for, is that of a model of the same total."""
    parameters_b = _PARAMETERS_B + adapters * _ADAPTER_B
    return {"parameters_b": parameters_b, "active_b": parameters_b}


def _with_adapters(name: str, *models: str) -> Sketch:
    """On an engine that serves all four."""
    modules = [f"{adapter}={MODEL}:LORA:seed={number}" for number, adapter in enumerate(_ADAPTERS, 1)]
    lora: dict[str, Any] = {
        "enable_lora": True,
        "max_loras": len(_ADAPTERS),
        "max_lora_rank": _RANK,
        "lora_modules": modules,
    }
    used = len(set(models) & set(_ADAPTERS))
    return Sketch(name, vllm(**_SIZE, **lora), spec=_asking(*models), theory=_reads(used), x=used, precision="bf16")


ADAPTERS = ReadyMade(
    slug="adapters",
    number=20,
    title="Adapters beside a model",
    question="What do requests pay for adapters of low rank: one for all of them, or four in the same batch?",
    arms=(
        Sketch("without adapters", vllm(**_SIZE), theory=_reads(0), x=0, precision="bf16"),
        _with_adapters("adapters served, none asked", _MODEL),
        _with_adapters("one adapter", _ADAPTERS[0]),
        _with_adapters("four adapters", *_ADAPTERS),
    ),
    spec={
        "workload": {"input_tokens": 64, "output_tokens": 64},
        "load": {"levels": [_IN_FLIGHT], "requests": 64, "warmup_s": 2},
        "power": {"idle_s": 2},
    },
    short=Short(
        {"load": {"requests": 24, "warmup_s": 0}, "workload": {"output_tokens": 32}},
        arms=("without adapters", "one adapter", "four adapters"),
    ),
    measures=(
        {"metric": "tpot_ms", "statistic": "p50"},
        {"metric": "output_tokens_per_s"},
        {"metric": "ttft_ms", "statistic": "p50"},
        {"metric": "j_per_output_token"},
    ),
    prediction={
        "calculator": "decode-limit",
        "output": "step_ms",
        "as": "ratio",
        "inputs": {
            "weight_bits": 16,
            "batch": _IN_FLIGHT,
            "context": 96,
            "accelerators": 1,
            "bandwidth_gb_s": 10,
            "peak_tflops": 1,
            "link_gb_s": None,
            "launch_us": 0,
        },
    },
    factor="adapters in a batch",
    repeats=3,
    smallest=10,
    look_for="An adapter of rank 8 has 2 % of the model's weights, so that by bytes and arithmetic it is nearly free. "
    "What it costs is its own small products for each matrix, started one by one. Four adapters in one batch "
    "against one tells what the batch pays for being mixed; four engines would need four times the memory.",
    limits="Nobody trained these adapters: their numbers are random, so that only what they cost is measured. On a CPU "
    "the products of adapters run in general code, not in the fused kernels that vLLM has for GPUs: expect less of a "
    "loss there. Two cores, a small model: the share of an adapter falls with the model's width.",
)
