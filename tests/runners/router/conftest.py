"""Routers before servers that answer as told."""

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from runners.router.cli import upstream_of
from runners.router.options import settings_of
from runners.router.proxy import Router
from tests.runners.router.asking import MODEL
from tests.services.misbehaving import Script, Server, serving

Start = Callable[..., str]
Servers = Callable[..., list[Server]]


@pytest.fixture
def servers() -> Iterator[Servers]:
    """A server for each script, whatever the model is called."""
    with ExitStack() as stack:

        def make(*scripts: Script) -> list[Server]:
            return [stack.enter_context(serving({MODEL: script})) for script in scripts]

        yield make


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # connections that routers keep to servers now gone
        loop.close()
        gc.collect()


@pytest.fixture
def router(loop: asyncio.AbstractEventLoop) -> Iterator[Start]:
    """The address of a router by these options before these addresses."""
    listening: list[asyncio.Server] = []

    def start(*upstreams: str, **options: Any) -> str:
        made = Router(settings_of(options), [upstream_of(index, text) for index, text in enumerate(upstreams)])
        listening.append(asyncio.run_coroutine_threadsafe(made.listen("127.0.0.1", 0), loop).result(10))
        return f"http://127.0.0.1:{listening[-1].sockets[0].getsockname()[1]}"

    yield start
    for server in listening:
        loop.call_soon_threadsafe(server.close)
