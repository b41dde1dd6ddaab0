"""Linear layers in the layouts of quantized checkpoints that vLLM reads, filled by rounding to the nearest.

W8A8: 8-bit integers with a scale for each output row, activations quantized token by token as they come
(compressed-tensors, "int-quantized"). GPTQ and AWQ: 4-bit integers with a scale for each group of 32 inputs, eight
packed in an integer of 32 bits; GPTQ (AutoGPTQ) packs along the inputs and keeps zero points less one, AWQ (AutoAWQ,
"gemm") packs along the outputs in an order of its own. The names are those of the layouts: neither method was put to
work here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from runners.engines.ggml import Floats

Array = npt.NDArray[Any]
Parts = dict[str, Array]
#: Inputs that share a scale; it divides 576 and 1536.
GROUP = 32
_MIDDLE = 8
_IN_ORDER = tuple(range(8))
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def bf16(values: Floats) -> npt.NDArray[np.uint16]:
    """The upper half of each number, rounded to the nearest, halves to even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def of_bf16(values: npt.NDArray[np.uint16]) -> Floats:
    return (values.astype(np.uint32) << 16).view(np.float32)


def parts(form: str, name: str, values: Floats) -> Parts:
    """What stands in a checkpoint of ``form`` for the tensor of this name: rows are outputs, columns inputs."""
    pack = _LAYOUTS.get(form)
    if pack is None or not name.endswith("proj.weight"):
        return {name: bf16(values)}
    stem = name.removesuffix("weight")
    return {f"{stem}{part}": np.ascontiguousarray(array) for part, array in pack(values).items()}


def _w8a8(values: Floats) -> Parts:
    scales = bf16(np.abs(values).max(axis=1, keepdims=True) / np.float32(127))
    levels = np.clip(np.rint(values / of_bf16(scales)), -127, 127).astype(np.int8)
    return {"weight": levels, "weight_scale": scales}


def _gptq(values: Floats) -> Parts:
    levels, scales = _four_bits(values)
    inputs, groups = values.shape[1], values.shape[1] // GROUP
    zeros = np.full((groups, values.shape[0]), _MIDDLE - 1, dtype=np.uint8)
    return {
        "qweight": _packed(levels, _IN_ORDER).T,
        "qzeros": _packed(zeros, _IN_ORDER),
        "scales": scales.T,
        "g_idx": (np.arange(inputs) // GROUP).astype(np.int32),
    }


def _awq(values: Floats) -> Parts:
    levels, scales = _four_bits(values)
    zeros = np.full((values.shape[1] // GROUP, values.shape[0]), _MIDDLE, dtype=np.uint8)
    return {
        "qweight": _packed(levels.T, _AWQ_ORDER),
        "qzeros": _packed(zeros, _AWQ_ORDER),
        "scales": scales.T,
    }


def _four_bits(values: Floats) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint16]]:
    """Levels from 0 to 15 with 8 for zero, and the scales of each row's groups."""
    outputs, inputs = values.shape
    groups = values.reshape(outputs, inputs // GROUP, GROUP)
    largest = np.maximum(np.abs(groups).max(axis=2), np.float32(1e-8))
    scales = bf16(largest / np.float32(7))
    levels = np.clip(np.rint(groups / of_bf16(scales)[:, :, None]), -8, 7) + _MIDDLE
    return levels.reshape(outputs, inputs).astype(np.uint8), scales


def _packed(levels: npt.NDArray[np.uint8], order: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Eight along the columns to an integer; ``order``: which of the eight comes first, lowest bits first."""
    eights = levels.reshape(levels.shape[0], -1, 8).astype(np.uint32)
    packed = np.zeros(eights.shape[:2], dtype=np.uint32)
    for place, index in enumerate(order):
        packed |= eights[:, :, index] << np.uint32(4 * place)
    return packed.view(np.int32)


_LAYOUTS: dict[str, Callable[[Floats], Parts]] = {"W8A8": _w8a8, "GPTQ": _gptq, "AWQ": _awq}


def _compressed_tensors() -> dict[str, Any]:
    def numbers(strategy: str, dynamic: bool) -> dict[str, Any]:
        return {"num_bits": 8, "type": "int", "symmetric": True, "strategy": strategy, "dynamic": dynamic}

    layers = {
        "targets": ["Linear"],
        "weights": numbers("channel", False),
        "input_activations": numbers("token", True),
        "output_activations": None,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": layers},
    }


#: What config.json says of each.
CONFIGS: dict[str, dict[str, Any]] = {
    "W8A8": _compressed_tensors(),
    "GPTQ": {
        "quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True, "desc_act": False, "lm_head": False,
        "checkpoint_format": "gptq",
    },
    "AWQ": {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"},
}  # fmt: skip
