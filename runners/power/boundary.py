"""What is counted once: which lines of a ledger lie inside others. Pure.

The power of a whole machine (layer host) holds its accelerators, CPUs and memory: it stands for their sum, and they are
shown as its parts. Two instruments of one CPU, its memory or its machine tell of the same energy: the first of them
counts, the other is shown beside it. Accelerators are told apart by their ids, so those of all instruments add up.
"""

from collections.abc import Sequence

from runners.power.devices import Layer


def holders(lines: Sequence[tuple[Layer, str]]) -> list[str]:
    """For each line, a (layer, source) of a ledger: the layer that holds it, or "" for one that counts."""
    first: dict[Layer, str] = {}
    for layer, source in lines:
        first.setdefault(layer, source)
    held = []
    for layer, source in lines:
        repeated = layer is not Layer.ACCELERATOR and first[layer] != source
        within_host = Layer.HOST in first and layer is not Layer.HOST
        held.append(Layer.HOST.value if within_host else layer.value if repeated else "")
    return held
