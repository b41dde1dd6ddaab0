"""Which GPUs are ours: CUDA_VISIBLE_DEVICES turned into NVML devices."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runners.power.devices import Note


@dataclass(frozen=True)
class Identity:
    """A board as NVML lists it."""

    index: int
    uuid: str
    name: str
    bus_id: str


@dataclass
class Selection:
    """Boards to measure; those of ``shared`` are named through a MIG instance, so others may use them too."""

    boards: list[Identity] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)


class _Unresolved(LookupError):
    """An entry names no board for certain; the message says why."""


def visible_boards(
    boards: Sequence[Identity], visible: str | None, order: str | None, mig_parent: Callable[[str], str | None]
) -> Selection:
    """``visible`` and ``order`` are CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER (None: not set); ``mig_parent`` gives
    the UUID of the board of a MIG instance. As in CUDA, an entry that names nothing hides itself and all after it.
    """
    if visible is None:
        return Selection(list(boards))
    selection = Selection()
    for entry in (part.strip() for part in visible.split(",")):
        if not entry or entry in ("-1", "NoDevFiles"):
            break
        try:
            board = _resolve(entry, boards, order, mig_parent)
        except _Unresolved as error:
            selection.notes.append(Note("cuda_visible_devices", f"CUDA_VISIBLE_DEVICES: {error}"))
            break
        if entry.startswith("MIG-"):
            selection.shared.add(board.uuid)
        if board not in selection.boards:
            selection.boards.append(board)
    _add_notes(selection, boards)
    return selection


def _resolve(
    entry: str, boards: Sequence[Identity], order: str | None, mig_parent: Callable[[str], str | None]
) -> Identity:
    if re.fullmatch(r"\d+", entry):
        return _by_index(int(entry), boards, order)
    if entry.startswith("MIG-GPU-"):
        return _by_uuid(entry.removeprefix("MIG-").partition("/")[0], boards)
    if entry.startswith("MIG-"):
        parent = mig_parent(entry)
        if parent is None:
            raise _Unresolved(f"no board has the MIG instance {entry!r}; it and what follows are left out")
        return _by_uuid(parent, boards)
    return _by_uuid(entry, boards)


def _by_index(index: int, boards: Sequence[Identity], order: str | None) -> Identity:
    """CUDA numbers by PCI bus only when told to; by default the fastest comes first, which NVML cannot know."""
    if order != "PCI_BUS_ID" and len({board.name for board in boards}) > 1:
        raise _Unresolved(
            f"which GPU is {index} depends on CUDA's own order, as the models differ; set "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID or name GPUs by UUID. It and what follows are left out"
        )
    by_bus = sorted(boards, key=lambda board: board.bus_id)
    if index >= len(by_bus):
        raise _Unresolved(f"there is no GPU {index}; it and what follows are left out")
    return by_bus[index]


def _by_uuid(prefix: str, boards: Sequence[Identity]) -> Identity:
    found = [board for board in boards if board.uuid.lower().startswith(prefix.lower())]
    if len(found) != 1:
        many = "more than one GPU" if found else "no GPU"
        raise _Unresolved(f"{prefix!r} names {many}; it and what follows are left out")
    return found[0]


def _add_notes(selection: Selection, boards: Sequence[Identity]) -> None:
    others = len(boards) - len(selection.boards)
    if others:
        selection.notes.append(
            Note(
                "bystanders",
                f"{others} of {len(boards)} GPUs are outside CUDA_VISIBLE_DEVICES and are not in the figure.",
            )
        )
    if selection.shared:
        selection.notes.append(
            Note("board_shared", "Power exists for whole boards only: that of other MIG instances is in the figure.")
        )
