"""Which pool of a server a sampled accelerator is in: each pool is a line of the ledger of its own. Pure."""

from collections.abc import Sequence
from typing import Any

from runners.power.devices import Layer
from runners.powers import Pool

Account = dict[str, Any]
Sampled = dict[str, Any]


class _Unresolved(LookupError):
    """A pool cannot be told from what was sampled; the message says why."""


def in_pools(account: Account, pools: Sequence[Pool]) -> Account:
    """The account with its accelerators in their pools, in the order of these. One that no pool names is a bystander
    and counts for nothing. Where the GPUs of a pool were not sampled, the ``fault`` says so: no part is shown as the
    whole.
    """
    accelerators = [device for device in account["devices"] if device["layer"] == Layer.ACCELERATOR]
    if not pools or not accelerators:
        return account
    others = [device for device in account["devices"] if device not in accelerators]
    notes = [note for note in account["notes"] if note["code"] != "pool_unknown"]
    fault = account.get("fault")
    fault = None if fault and fault["code"] == "pool_unknown" else fault
    try:
        held = _held(accelerators, pools)
    except _Unresolved as error:
        found = {"code": "pool_unknown", "text": f"The energy of the pools is not known: {error}"}
        return {**account, "fault": fault or found, "notes": [found, *notes]}
    left = len(accelerators) - len(held)
    if left:
        text = f"{left} of {len(accelerators)} sampled GPUs are in no pool of the deployment and are not in the figure."
        notes = [note for note in notes if note["code"] != "pool_bystanders"]
        notes.append({"code": "pool_bystanders", "text": text})
    return {**account, "devices": [*held, *others], "fault": fault, "notes": notes}


def _held(accelerators: Sequence[Sampled], pools: Sequence[Pool]) -> list[Sampled]:
    named = {pool.name: [one for gpu in pool.gpus for one in _named(accelerators, gpu, pool)] for pool in pools}
    taken = [device["id"] for devices in named.values() for device in devices]
    if twice := [key for key in taken if taken.count(key) > 1]:
        raise _Unresolved(f"{twice[0]} is named more than once. Name each GPU in one pool.")
    for pool in pools:
        if not pool.gpus:
            named[pool.name] = [device for device in accelerators if device["id"] not in taken]
        if not named[pool.name]:
            raise _Unresolved(f"no GPU is left for {pool.name}. Sample its machine too, or name its GPUs.")
    return [device | {"pool": name} for name, devices in named.items() for device in devices]


def _named(accelerators: Sequence[Sampled], gpu: str, pool: Pool) -> list[Sampled]:
    machine, _, name = gpu.rpartition("/")
    of_machine = [device for device in accelerators if machine in ("", device["host"], device["facts"].get("machine"))]
    found = [device for device in of_machine if _is(device, name)]
    if not found or (len(found) > 1 and name != "*"):
        how_many = "more than one of" if found else "none of"
        known = ", ".join(device["id"] for device in accelerators)
        raise _Unresolved(f"{gpu} of {pool.name} is {how_many} the GPUs that were sampled: {known}.")
    return found


def _is(device: Sampled, name: str) -> bool:
    if name == "*":
        return True
    if name.isdigit():
        return str(device["facts"].get("index")) == name
    return str(device["id"]).rpartition("/")[2].lower().startswith(name.lower())
