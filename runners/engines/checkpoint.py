"""A GGUF model of the llama kind as a folder that vLLM and transformers read: config.json, safetensors, tokenizer."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from runners.engines import packing
from runners.engines.ggml import Floats, Gguf, Tensor

_NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
#: Of safetensors, by that of the array; 16-bit integers hold the bits of BF16.
_KINDS = {"uint16": "BF16", "int8": "I8", "int32": "I32"}
_CONTROL = 3
WEIGHTS = "model.safetensors"


def write(source: Gguf, tensors: Iterator[Tensor], layers: int, form: str, folder: Path) -> None:
    """``form``: BF16 where ``packing`` has no layout of that name. Raises GgufError for what the file does not say,
    OSError.
    """
    heads = {
        "attn_q": source.number("llama.attention.head_count"),
        "attn_k": source.number("llama.attention.head_count_kv"),
    }
    named = ((_name(tensor.name), _unrotated(tensor, heads)) for tensor in tensors)
    write_weights(
        {part: array for name, values in named for part, array in packing.parts(form, name, values).items()},
        folder / WEIGHTS,
    )
    tokens = _write_tokenizer(source, folder)
    special = _special(source)
    length = source.number("llama.context_length")
    quantized = {"quantization_config": packing.CONFIGS[form]} if form in packing.CONFIGS else {}
    dump(folder / "config.json", config(source, layers) | quantized)
    dump(folder / "generation_config.json", special)
    dump(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{name.removesuffix("_id"): tokens[number] for name, number in special.items()},
            "model_max_length": length,
            "clean_up_tokenization_spaces": False,
            "chat_template": source.text("tokenizer.chat_template"),
        },
    )


def _special(source: Gguf) -> dict[str, Any]:
    ids = {name: source.number(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos")}
    return {f"{name}_token_id": number for name, number in ids.items()} | {"pad_token_id": ids["eos"]}


def config(source: Gguf, layers: int) -> dict[str, Any]:
    """config.json of the model with so many layers, in BF16."""
    width, heads = source.number("llama.embedding_length"), source.number("llama.attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": source.number("llama.feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": source.number("llama.attention.head_count_kv"),
        "head_dim": width // heads,
        "hidden_act": "silu",
        "max_position_embeddings": source.number("llama.context_length"),
        "rms_norm_eps": source.fraction("llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": source.fraction("llama.rope.freq_base"),
        "tie_word_embeddings": True,
        "vocab_size": len(source.texts("tokenizer.ggml.tokens")),
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
    } | _special(source)


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Rows and columns of the matrices of a layer, by name."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    shared = config["num_key_value_heads"] * config["head_dim"]
    return {
        "self_attn.q_proj": (width, width),
        "self_attn.k_proj": (shared, width),
        "self_attn.v_proj": (shared, width),
        "self_attn.o_proj": (width, width),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }


def _name(name: str) -> str:
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    _, layer, part, end = name.split(".")
    return f"model.layers.{layer}.{_NAMES[part]}.{end}"


def _unrotated(tensor: Tensor, heads: dict[str, int]) -> Floats:
    """llama.cpp keeps the rows of queries and keys in pairs for its rotation; the original has the halves apart."""
    count = heads.get(tensor.name.split(".")[2] if tensor.name.startswith("blk.") else "")
    if count is None:
        return tensor.values
    rows, columns = tensor.shape
    pairs = tensor.values.reshape(count, rows // count // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, columns)


def write_weights(weights: packing.Parts, path: Path) -> None:
    """safetensors: eight bytes of length, a JSON header, the numbers (README of huggingface/safetensors, Format)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, values in weights.items():
        end = offset + values.nbytes
        header[name] = {
            "dtype": _KINDS[values.dtype.name], "shape": list(values.shape), "data_offsets": [offset, end],
        }  # fmt: skip
        offset = end
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for values in weights.values():
            file.write(values.tobytes())


def _write_tokenizer(source: Gguf, folder: Path) -> list[str]:
    """The byte-level BPE tokenizer with digits one by one, as "smollm" in llama.cpp (src/llama-vocab.cpp)."""
    tokens, kinds = source.texts("tokenizer.ggml.tokens"), source.numbers("tokenizer.ggml.token_type")
    left, right = zip(*(merge.split(" ") for merge in source.texts("tokenizer.ggml.merges")), strict=True)
    tokenizer = Tokenizer(
        models.BPE({word: number for number, word in enumerate(tokens)}, list(zip(left, right, strict=True)))
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [word for word, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in control])
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokens


def dump(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False))
