"""llama.cpp's own server out of the xllamacpp package, in a process of its own.

It is one because stopping the server while a request is in flight blocks for half a minute.
"""

import json
import os
import signal
import sys
import threading
from typing import Any

#: Where llama.cpp's own defaults do not suit a server: they serve one request at a time.
DEFAULTS: dict[str, Any] = {"n_parallel": 8, "n_ctx": 8192}

#: The enumeration of an option, and what its names begin with.
_ENUMS = {
    "cache_type_k": ("ggml_type", "GGML_TYPE_"),
    "cache_type_v": ("ggml_type", "GGML_TYPE_"),
    "flash_attn_type": ("llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_"),
    "split_mode": ("llama_split_mode", "LLAMA_SPLIT_MODE_"),
    "load_mode": ("llama_load_mode", "LLAMA_LOAD_MODE_"),
    "numa": ("ggml_numa_strategy", "GGML_NUMA_STRATEGY_"),
    "speculative.types": ("common_speculative_type", "COMMON_SPECULATIVE_TYPE_"),
}


def _value(library: Any, name: str, value: Any) -> Any:
    if name not in _ENUMS:
        return value
    kind, prefix = _ENUMS[name]
    values = getattr(library, kind)
    return [values[prefix + word] for word in value] if isinstance(value, list) else values[prefix + value]


def _set(params: Any, path: str, value: Any) -> None:
    *owners, last = path.split(".")
    for owner in owners:
        params = getattr(params, owner)
    setattr(params, last, value)


def _params(asked: dict[str, Any]) -> Any:
    """``asked``: model, alias, port, threads and options, as ``launch`` writes them."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = asked["model"]
    params.model_alias = {asked["alias"]}
    params.hostnames = [asked["host"]]
    params.port = asked["port"]
    params.endpoint_metrics = params.endpoint_props = True
    params.ui = False
    params.verbosity = 2  # errors and warnings: the last words of a failed start
    for part in ("cpuparams", "cpuparams_batch", "speculative.draft.cpuparams", "speculative.draft.cpuparams_batch"):
        _set(params, f"{part}.n_threads", asked["threads"])
    options = DEFAULTS | asked["options"]
    task = options.pop("task", "generate")
    if task != "generate":
        params.embedding = True
        kinds = xllamacpp.llama_pooling_type
        params.pooling_type = kinds.LLAMA_POOLING_TYPE_MEAN if task == "embed" else kinds.LLAMA_POOLING_TYPE_RANK
    for name, value in options.items():
        _set(params, name, _value(xllamacpp, name, value))
    return params


def main(argument: str) -> int:
    """Serves until SIGTERM or SIGINT."""
    import xllamacpp

    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    try:
        server = xllamacpp.Server(_params(json.loads(argument)))
    except RuntimeError as error:
        print(f"llama.cpp: {error}", file=sys.stderr)
        return 3
    print(f"llama.cpp listens at {server.listening_address}", flush=True)
    stopped.wait()
    os._exit(0)  # the server's own shutdown waits for requests in flight


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
