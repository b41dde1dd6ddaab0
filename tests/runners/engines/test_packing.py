"""Layouts of quantized checkpoints, unpacked here by their own definitions."""

import numpy as np
import numpy.typing as npt
import pytest

from runners.engines.packing import GROUP, of_bf16, parts

OUTPUTS, INPUTS = 16, 64
NAME = "model.layers.0.mlp.up_proj.weight"
VALUES = np.random.default_rng(0).normal(0, 0.02, (OUTPUTS, INPUTS)).astype(np.float32)


def nibbles(packed: npt.NDArray[np.int32], order: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Along the last axis; ``order``: the place in the output of each four bits, lowest first."""
    found = np.zeros((*packed.shape, 8), dtype=np.int64)
    for place, index in enumerate(order):
        found[..., index] = (packed.view(np.uint32) >> np.uint32(4 * place)) & 15
    return found.reshape(*packed.shape[:-1], -1)


def unpacked(form: str) -> npt.NDArray[np.float32]:
    """The weights as an engine computes with them."""
    stem = NAME.removesuffix("weight")
    found = {name.removeprefix(stem): array for name, array in parts(form, NAME, VALUES).items()}
    scales = of_bf16(found["weight_scale" if form == "W8A8" else "scales"])
    if form == "W8A8":
        return np.asarray(found["weight"].astype(np.float32) * scales)
    order = (0, 2, 4, 6, 1, 3, 5, 7) if form == "AWQ" else tuple(range(8))
    zeros = nibbles(found["qzeros"], order) + (form == "GPTQ")
    levels = nibbles(found["qweight"], order) if form == "AWQ" else nibbles(found["qweight"].T.copy(), order).T
    groups = np.arange(INPUTS) // GROUP
    return np.asarray(((levels - zeros[groups]) * scales[groups]).T, dtype=np.float32)


@pytest.mark.parametrize(("form", "levels"), [("W8A8", 127), ("GPTQ", 7), ("AWQ", 7)])
def test_a_packed_weight_is_within_half_a_level_of_the_source(form: str, levels: int) -> None:
    error = np.abs(unpacked(form) - VALUES).max()
    assert 0 < error <= 0.51 * np.abs(VALUES).max() / levels


def test_only_linear_layers_are_packed() -> None:
    assert list(parts("AWQ", "model.embed_tokens.weight", VALUES)) == ["model.embed_tokens.weight"]
    assert parts("HF", NAME, VALUES)[NAME].dtype == np.uint16
    assert [array.dtype.name for array in parts("GPTQ", NAME, VALUES).values()] == ["int32", "int32", "uint16", "int32"]
