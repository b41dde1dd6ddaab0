"""Asking a router, and servers that answer as told."""

import json
import socket
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
#: The name ends with "keep": the server leaves the connection open.
MODEL = "m keep"


def body(prompt: str = "a b", **fields: Any) -> bytes:
    return json.dumps({"model": MODEL, "messages": [{"role": "user", "content": prompt}], **fields}).encode()


def post(url: str, data: bytes) -> Any:
    """The open answer."""
    address = f"{url}/v1/chat/completions"
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=10)


def ask(url: str, prompt: str = "a b", **fields: Any) -> str:
    with post(url, body(prompt, **fields)) as answer:
        return str(answer.read().decode())


def metrics(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def in_background(call: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def dead() -> str:
    """An address at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{found.getsockname()[1]}"
