"""Whose energy this machine's instruments read: the server's, where that is here; else the load generator's."""

import socket
from collections.abc import Iterable
from typing import Any

from runners.address import Pinned
from runners.metrics import Mark
from runners.power.devices import Layer, weakest
from runners.power.pools import in_pools
from runners.power.sources import SOURCES
from runners.spec import Power

_TO_DO = (
    "start a worker on its machine (celery -A observatory worker -Q power.NAME) and give its NAME to the deployment as "
    "a power host, run bench on that machine, or say --server-here if it is this one under another address"
)


def own(addresses: Iterable[Pinned]) -> bool:
    """Whether all of these addresses are this machine's: loopback, or of one of its interfaces."""
    return all(_own(address) for address in addresses)


def _own(address: Pinned) -> bool:
    """A socket can be bound to the machine's own addresses only."""
    family, (host, _, *scope) = address
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0, *scope))
    except OSError:
        return False
    return True


def sampled_here(power: Power) -> Power:
    """What the machine of the run reads: where power workers sample the server, no more than what it takes itself."""
    return Power() if power.hosts else power


def placed(description: dict[str, Any], power: Power, *, here: bool, url: str) -> dict[str, Any]:
    """The sampler's account with the devices that this machine's own instruments read set aside as ``client`` where the
    server is not ``here``: they are in no ledger. What someone has said the place of (``Power.meters``) stays.
    """
    if not power.hosts and (here or power.source == "none"):
        return as_stated(description, power)
    devices = description["devices"]
    elsewhere = [device for device in devices if device["source"] not in SOURCES]
    client = [device for device in devices if device["source"] in SOURCES]
    notes = [note for note in description["notes"] if note["code"] != "sampled_host"]
    fault = None if power.meters and not power.hosts else _why(power, url)
    account = {
        **description,
        **summed(elsewhere),
        "client": {"host": socket.gethostname(), "devices": client, "notes": notes, **_source(client)},
        "fault": fault,
        "notes": [fault] if fault else notes,
    }
    return as_stated(account, power)


def as_stated(account: dict[str, Any], power: Power) -> dict[str, Any]:
    """The account with what someone said of its accelerators: their pools, and whether they serve others too."""
    account = in_pools(account, power.pools)
    accelerators = [device for device in account["devices"] if device["layer"] == Layer.ACCELERATOR]
    if not power.shared or not accelerators:
        return account
    devices = [device | {"shared": True} if device in accelerators else device for device in account["devices"]]
    notes = [note for note in account["notes"] if note["code"] not in ("several_processes", "gpu_shared")]
    text = (
        "Others are served on the GPUs of this run, as was stated: what they took is in its energy, which is compared "
        "with that of shared GPUs only."
    )
    return account | {"devices": devices, "notes": [{"code": "gpu_shared", "text": text}, *notes]}


def summed(devices: list[dict[str, Any]]) -> dict[str, Any]:
    """What an account says of its devices together."""
    periods = [device["update_ms"] for device in devices]
    return {"devices": devices, **_source(devices), "period_ms": min(periods, default=None)}


def _source(devices: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(device["source"] for device in devices)
    return {"source": "+".join(names) or "none", "mark": weakest(Mark(device["mark"]) for device in devices)}


def _why(power: Power, url: str) -> dict[str, str]:
    if power.hosts:
        words = f"it is sampled by {', '.join(power.hosts)}, whose samples were not put to this run"
        return {"code": "power_hosts", "text": f"the energy of the server was not measured: {words}"}
    words = f"{url} is not on this machine, and power is read on this machine alone"
    return {
        "code": "server_elsewhere",
        "text": f"the energy of the server was not measured: {words}; {_TO_DO}",
    }
