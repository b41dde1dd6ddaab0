"""A router in a process of its own, before servers that answer as told."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.runners.router.asking import MODEL, ROOT
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


@pytest.fixture
def router() -> Iterator[Start]:
    """The address of a router by these options before these addresses."""
    processes: list[subprocess.Popen[str]] = []

    def start(*upstreams: str, **options: Any) -> str:
        words = [word for url in upstreams for word in ("--upstream", url)]
        words += [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
        process = subprocess.Popen(
            [sys.executable, "-m", "runners", "router", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout
        return str(json.loads(process.stdout.readline())["url"])

    yield start
    for process in processes:
        process.terminate()
    for process in processes:
        assert process.wait(10) == 0
