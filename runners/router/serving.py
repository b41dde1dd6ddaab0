"""A router on this machine until it is told to end."""

import asyncio
import json
import signal
from collections.abc import Callable, Sequence

from runners.router.proxy import Router
from runners.router.settings import Settings
from runners.router.upstream import Upstream

_LOOK_S = 0.2


def serve(settings: Settings, upstreams: Sequence[Upstream], host: str, port: int, trouble: Callable[[], str]) -> str:
    """Prints one JSON line with the address when ready; ends with SIGTERM or SIGINT, or as soon as ``trouble`` says
    something, which is then given back. Raises OSError where the port is taken.
    """
    return asyncio.run(_serve(Router(settings, upstreams), host, port, trouble))


async def _serve(router: Router, host: str, port: int, trouble: Callable[[], str]) -> str:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = await router.listen(host, port)
    address = f"http://{host}:{server.sockets[0].getsockname()[1]}"
    print(json.dumps({"ready": True, "url": address}), flush=True)
    try:
        while not stopped.is_set() and not (words := trouble()):
            try:
                await asyncio.wait_for(stopped.wait(), _LOOK_S)
            except TimeoutError:
                continue
        return "" if stopped.is_set() else words
    finally:
        server.close()
