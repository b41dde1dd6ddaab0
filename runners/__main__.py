"""``python -m runners``: the instruments on the command line."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from runners import __version__

#: What each command does, and the module that does it: that alone is imported, so that a run starts at once.
_COMMANDS = (
    ("bench", "bench_cli", "run a load test against an endpoint, with power"),
    ("quality", "quality.cli", "ask questions with known answers: accuracy, and agreement with a reference"),
    ("probe", "probe", "say what stands at a URL and what it supports"),
    ("power", "power.cli", "say which power instruments this machine has"),
    ("fill-power", "backfill", "add power that Prometheus or nvidia-smi kept to the results of a run that has ended"),
    ("calibrate", "load.calibrate", "measure this machine's own error against a server of known timing"),
    ("engine", "engines.cli", "start llama.cpp, vLLM or another engine on this machine"),
    ("router", "router.cli", "spread requests over servers that run already, or choose between two models"),
    ("model", "engines.models_cli", "make a smaller or larger form of the model that is installed"),
)


class _Help(argparse.HelpFormatter):
    """Every default stands in the help, once, where there is one to show."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        words, default = action.help, action.default
        shown = isinstance(default, int | float | str) and not isinstance(default, bool)
        if not words or "default" in words or not shown or default in ("", argparse.SUPPRESS):
            return words
        return f"{words} (default %(default)s)"


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the list of all options before it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Help, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help lists the options)\n")


def parser(chosen: str = "") -> argparse.ArgumentParser:
    """All commands by name; only the ``chosen`` one has its options."""
    top = Parser(prog="python -m runners", description="Measure LLM serving endpoints.")
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True)
    for name, module, help in _COMMANDS:
        command = commands.add_parser(name, help=help, description=help)
        if name == chosen:
            does = import_module(f"runners.{module}")
            does.add_arguments(command)
            command.set_defaults(run=does.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    args = parser(next((word for word in words if not word.startswith("-")), "")).parse_args(words)
    return int(args.run(args))


if __name__ == "__main__":
    sys.exit(main())
