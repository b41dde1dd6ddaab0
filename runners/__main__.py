"""``python -m runners``: the instruments on the command line."""

import argparse
import sys
from collections.abc import Sequence

from runners import __version__, demo_engine


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m runners", description="Measure LLM serving endpoints.")
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True)
    serve_demo = commands.add_parser("serve-demo", help="serve a small real model on this machine with llama.cpp")
    demo_engine.add_arguments(serve_demo)
    serve_demo.set_defaults(run=demo_engine.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    return int(args.run(args))


if __name__ == "__main__":
    sys.exit(main())
