"""Adapters of the packaged model in PEFT's layout, which vLLM reads: to each matrix W of its layers they add
(alpha / r) B A, with A of r rows and B of r columns (Hu et al. 2021, arXiv 2106.09685).

Nobody trained them: their numbers are random and small, so that each answers a little differently. What they cost is
that of trained ones.
"""

from pathlib import Path

import numpy as np

from runners.engines import checkpoint, packing
from runners.engines.ggml import Floats, Gguf
from runners.engines.packaged import MODEL_NAME

RANK, ALPHA = 8, 16
_DEVIATION = 0.01


def write(source: Gguf, seed: int, folder: Path) -> None:
    """Raises GgufError for what the file does not say, OSError."""
    config = checkpoint.config(source, source.number("llama.block_count"))
    matrices = checkpoint.shapes(config)
    random, weights = np.random.default_rng(seed), dict[str, Floats]()
    for layer in range(config["num_hidden_layers"]):
        for name, (rows, columns) in matrices.items():
            path = f"base_model.model.model.layers.{layer}.{name}"
            weights[f"{path}.lora_A.weight"] = random.normal(0, columns**-0.5, (RANK, columns)).astype(np.float32)
            weights[f"{path}.lora_B.weight"] = random.normal(0, _DEVIATION, (rows, RANK)).astype(np.float32)
    parts = {name: packing.bf16(values) for name, values in weights.items()}
    checkpoint.write_weights(parts, folder / "adapter_model.safetensors")
    checkpoint.dump(
        folder / "adapter_config.json",
        {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": MODEL_NAME,
            "r": RANK,
            "lora_alpha": ALPHA,
            "lora_dropout": 0.0,
            "bias": "none",
            "target_modules": sorted({name.rpartition(".")[2] for name in matrices}),
        },
    )
