"""The feed-forward part of each layer in another shape: as a mixture of experts, or wider.

Experts are the halves of the source's part by turns, chosen by a router that is drawn at random ("sparse upcycling",
Komatsuzaki et al. 2022, without its training): each token takes as much arithmetic as in the source, and what it
answers is worse. A wider part is the source's several times, each counted in part: it answers the same and takes more.
"""

import re
from collections.abc import Iterator
from zlib import crc32

import numpy as np

from runners.engines.derived import EXPERTS_USED, Derived
from runners.engines.ggml import Floats, Tensor

ROUTER = "ffn_gate_inp"
_PARTS = re.compile(r"(blk\.\d+)\.(ffn_gate|ffn_up|ffn_down)\.weight")
_SPREAD = 0.1


def numbers(asked: Derived, architecture: str, width: int) -> dict[str, int]:
    """What the file says of it in place of the source; ``width``: of the source's part."""
    if not asked.experts:
        return {f"{architecture}.feed_forward_length": width * asked.width}
    return {
        f"{architecture}.feed_forward_length": width // EXPERTS_USED,
        f"{architecture}.expert_count": asked.experts,
        f"{architecture}.expert_used_count": EXPERTS_USED,
    }


def remade(tensor: Tensor, asked: Derived) -> Iterator[Tensor]:
    """The tensors that stand in its place."""
    found = _PARTS.fullmatch(tensor.name)
    if found is None or (not asked.experts and asked.width == 1):
        yield tensor
        return
    layer, part = found[1], found[2]
    if not asked.experts:
        yield _tensor(tensor.name, _wider(tensor.values, part, asked.width))
        return
    yield _tensor(f"{layer}.{part}_exps.weight", _experts(tensor.values, part, asked.experts))
    if part == "ffn_gate":
        draws = np.random.default_rng(crc32(layer.encode()))
        router = draws.normal(0, _SPREAD, (asked.experts, tensor.shape[1])).astype(np.float32)
        yield _tensor(f"{layer}.{ROUTER}.weight", router)


def _tensor(name: str, values: Floats) -> Tensor:
    return Tensor(name, "F32", values.shape, values)


def _wider(values: Floats, part: str, times: int) -> Floats:
    """The inner width lies along the columns of the way down, and along the rows of the others."""
    if part == "ffn_down":
        return np.tile(values / np.float32(times), (1, times))
    return np.tile(values, (times, 1))


def _experts(values: Floats, part: str, count: int) -> Floats:
    """The weights of a token's experts add up to one: what comes down is made up for."""
    if part == "ffn_down":
        halves = np.split(values * np.float32(EXPERTS_USED), EXPERTS_USED, axis=1)
    else:
        halves = np.split(values, EXPERTS_USED, axis=0)
    return np.stack([halves[index % EXPERTS_USED] for index in range(count)])
