"""``python3 -m gpu_server --size 1b`` with this folder's parent and the project's root in PYTHONPATH.

Serves until SIGTERM; prints a JSON line when it is ready.
"""

import argparse
import asyncio
import json
import signal
import sys

from gpu_server.batching import Batcher
from gpu_server.serving import Service, serve
from runners.lifeline import die_with


async def _run(model, name: str, port: int, facts: dict[str, object]) -> None:  # type: ignore[no-untyped-def]
    batcher = Batcher(model)
    batcher.start()
    server = await serve(Service(batcher, name, model.vocabulary, model.context), "127.0.0.1", port)
    host, bound = server.sockets[0].getsockname()[:2]
    print(json.dumps({"ready": True, "url": f"http://{host}:{bound}", "model": name, **facts}), flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    server.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu_server", description=__doc__)
    parser.add_argument("--size", choices=("tiny", "1b", "3b", "8b"), default="1b")
    parser.add_argument("--slots", type=int, default=64, help="requests served at once (default %(default)s)")
    parser.add_argument("--context", type=int, default=2048, help="tokens of each (default %(default)s)")
    parser.add_argument("--device", default="cuda", help="cuda or cpu (default %(default)s)")
    parser.add_argument("--parent", type=int, help="end when this process ends")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    options = parser.parse_args()
    if options.parent:
        die_with(options.parent)
    try:
        import torch

        from gpu_server.llama import Llama, config_of

        if options.device.startswith("cuda") and not torch.cuda.is_available():
            print("torch is there but sees no GPU: check nvidia-smi and that torch was built for CUDA", file=sys.stderr)
            return 3
        torch.manual_seed(0)
        model = Llama(config_of(options.size, options.context), options.slots, options.context, options.device)
    except ImportError as error:
        print(f"{error}: this server needs torch and transformers in the Python that runs it", file=sys.stderr)
        return 3
    except RuntimeError as error:  # out of memory, a driver that is too old
        print(f"the model did not start: {error}", file=sys.stderr)
        return 3
    facts = {"parameters": model.parameters, "torch": torch.__version__, "device": options.device}
    asyncio.run(_run(model, f"random-llama-{options.size}", options.port, facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
