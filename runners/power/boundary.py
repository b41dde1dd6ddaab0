"""What is counted once: which lines of a ledger lie inside others. Pure.

The power of a whole machine (layer host) holds its accelerators, CPUs and memory: it stands for their sum, and they are
shown as its parts. Two instruments of a machine's CPUs, its memory or itself tell of the same energy: the first of them
counts, the other is shown beside it. Accelerators are told apart by their ids, so those of all instruments add up.
"""

from collections.abc import Sequence

from runners.power.devices import Layer


def holders(lines: Sequence[tuple[Layer, str, str]]) -> list[str]:
    """For each line, a (layer, source, machine) of a ledger: the layer that holds it, or "" for one that counts."""
    first: dict[tuple[Layer, str], str] = {}
    for layer, source, machine in lines:
        first.setdefault((layer, machine), source)
    held = []
    for layer, source, machine in lines:
        repeated = layer is not Layer.ACCELERATOR and first[layer, machine] != source
        within_host = (Layer.HOST, machine) in first and layer is not Layer.HOST
        held.append(Layer.HOST.value if within_host else layer.value if repeated else "")
    return held
