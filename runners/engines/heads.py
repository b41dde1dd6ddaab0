"""Heads that guess ahead of the packaged model, in the layouts that vLLM reads.

MEDUSA: heads that each see the state of the last token and guess one more token ahead (Cai et al. 2024, arXiv
2401.10774). EAGLE: one layer that goes on from the states of the model (Li et al. 2024, arXiv 2401.15077). Nobody
trained them: a head of MEDUSA guesses what the model itself says next, EAGLE's layer is random. What they cost is that
of trained ones; how often they guess right is not.
"""

from pathlib import Path

import numpy as np

from runners.engines import checkpoint, packing
from runners.engines.ggml import Floats, Gguf

#: Tokens that MEDUSA's heads guess, one each.
GUESSES = 3
_DEVIATION = 0.02


def write(source: Gguf, form: str, folder: Path) -> None:
    """Raises GgufError for what the file does not say, OSError."""
    embedding = next(source.tensors(lambda name: name if name == "token_embd.weight" else None)).values
    weights, config = (_medusa if form == "MEDUSA" else _eagle)(source, embedding)
    checkpoint.write_weights(
        {name: packing.bf16(values) for name, values in weights.items()}, folder / checkpoint.WEIGHTS
    )
    checkpoint.dump(folder / "config.json", config)


def _medusa(source: Gguf, embedding: Floats) -> tuple[dict[str, Floats], dict[str, object]]:
    vocabulary, width = embedding.shape
    weights: dict[str, Floats] = {}
    for head in range(GUESSES):
        # Added to the state of the model: nothing.
        weights[f"blocks.{head}.layers.0.weight"] = np.zeros((width, width), dtype=np.float32)
        weights[f"lm_heads.{head}.weight"] = embedding
    return weights, {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": width,
        "vocab_size": vocabulary,
        "truncated_vocab_size": vocabulary,
        "num_heads": GUESSES,
        "num_hidden_layers": 1,
        "max_position_embeddings": source.number("llama.context_length"),
        "torch_dtype": "bfloat16",
    }


def _eagle(source: Gguf, embedding: Floats) -> tuple[dict[str, Floats], dict[str, object]]:
    config = checkpoint.config(source, 1)
    width, random = config["hidden_size"], np.random.default_rng(0)
    layer = {f"layers.0.{name}": shape for name, shape in checkpoint.shapes(config).items()}
    shapes = {"fc": (width, 2 * width), **layer}
    weights: dict[str, Floats] = {
        f"{name}.weight": random.normal(0, _DEVIATION, shape).astype(np.float32) for name, shape in shapes.items()
    }
    # Its layer has no norm before the attention.
    weights["layers.0.post_attention_layernorm.weight"] = np.ones(width, dtype=np.float32)
    return weights | {"embed_tokens.weight": embedding}, config
