"""What power is read for a run, and by whom."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runners.meters import Meter, complaint
from runners.strict_json import SpecError

#: How a machine with a power worker may be called.
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


#: How a GPU of a pool is named: its index, its UUID or the beginning of it, or * for all; before it, the machine.
GPU_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,62}/)?(\*|[0-9]{1,3}|[A-Za-z][A-Za-z0-9:_-]{3,79})")
POOL_NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9 ._+-]{0,39}\Z")


@dataclass(frozen=True)
class Pool:
    """Accelerators of one server that do one part of the work, such as prefill or decode: a line of the ledger of
    their own. Without ``gpus`` it has those that no other pool names.
    """

    name: str
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Power:
    """``source``: auto, none, or instruments of this machine by name, joined by "+". ``meters``: further ones that have
    to be told where they are. ``idle_s``: how long idle power is read before the first stage, and after the last one.
    ``observer``: read it slowly as well, to know what being read costs.

    With ``start_below_c`` or ``start_steady_c_per_min`` the run first waits, for ``start_wait_s`` at most, until the
    hottest GPU is below the one, or cools by less than the other.

    The CPU watts feed the modelled source only; missing means its published defaults. ``server_here``: the server is on
    this machine although its address does not say so. ``hosts``: the machines whose power workers sample the server.
    ``shared``: others are served on its GPUs too. ``pools``: how its accelerators share the work; empty where all do
    the same.
    """

    source: str = "auto"
    idle_s: float = 3.0
    cpu_idle_w: float | None = None
    cpu_max_w: float | None = None
    meters: tuple[Meter, ...] = ()
    observer: bool = False
    start_below_c: float | None = None
    start_steady_c_per_min: float | None = None
    start_wait_s: float = 300.0
    server_here: bool = False
    shared: bool = False
    hosts: tuple[str, ...] = ()
    pools: tuple[Pool, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether anything is asked for."""
        return self.source != "none" or bool(self.meters) or bool(self.hosts)

    @property
    def waits_to_cool(self) -> bool:
        return self.start_below_c is not None or self.start_steady_c_per_min is not None


def check_power(power: Power) -> None:
    """Raises SpecError that names the field and the fix."""
    if power.idle_s < 0:
        raise SpecError("power.idle_s: 0 seconds (idle power is not read) or more")
    if power.start_wait_s <= 0:
        raise SpecError("power.start_wait_s: above 0 seconds")
    if power.start_steady_c_per_min is not None and power.start_steady_c_per_min <= 0:
        raise SpecError("power.start_steady_c_per_min: above 0 degrees a minute, such as 1")
    if power.source == "none" and (power.observer or power.waits_to_cool):
        raise SpecError("power.source: none reads nothing: choose one for observer and for a cool start")
    if fault := pool_fault(power.pools):
        raise SpecError(f"power.pools: {fault}")
    for number, meter in enumerate(power.meters):
        if found := complaint(meter):
            raise SpecError(f"power.meters[{number}].{found[0]}: {found[1]}")
    for host in power.hosts:
        if not HOST_NAME.fullmatch(host):
            raise SpecError(f"power.hosts: {host!r} is not a name of letters, digits, dots, hyphens and underscores")


def pool_fault(pools: Sequence[Pool]) -> str:
    """What is wrong with them and what to do; empty when nothing is."""
    names, gpus = [pool.name for pool in pools], [gpu for pool in pools for gpu in pool.gpus]
    if any(not POOL_NAME.fullmatch(name) for name in names):
        return "give each pool a name of letters and digits, such as prefill or decode"
    if len(set(names)) < len(names):
        return "give each pool a name of its own"
    if wrong := [gpu for gpu in gpus if not GPU_NAME.fullmatch(gpu)]:
        return f"{wrong[0][:80]!r} names no GPU: write an index such as 0, a UUID, gpu-1/0 or gpu-1/*"
    if twice := [gpu for gpu in gpus if gpus.count(gpu) > 1]:
        return f"GPU {twice[0]} is named twice: each is in one pool"
    if sum(not pool.gpus for pool in pools) > 1:
        return "name the GPUs of all pools but one, such as 0,1: the one left has the rest"
    return ""
