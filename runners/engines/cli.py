"""``python -m runners engine``: starts an engine on this machine, says its address, and ends it at Ctrl-C."""

import argparse
import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from runners.engines import options
from runners.engines.launch import EngineError, launch
from runners.engines.recipe import OPTIONS, Engine, Recipe, SpecError
from runners.exits import Exit

_LOOK_S = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("engine", choices=list(Engine), help="what to start")
    parser.add_argument(
        "--model", default="", help="a file, a folder, or a name (default: the model that is installed)"
    )
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help="an option in the engine's own terms; repeatable; docs/engines.md lists them",
    )  # fmt: skip
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for the engine; repeatable"
    )
    parser.add_argument("--threads", type=int, help="CPU threads of llama.cpp (default: as many as cores)")
    parser.add_argument("--cores", default="", metavar="0,1", help="bind the engine to these cores")
    parser.add_argument("--command", dest="template", default="", help='of "command", with {port}, {host} and {model}')
    parser.add_argument(
        "--ready", type=float, default=Recipe.ready_s, metavar="S", help="how long it may take to start"
    )
    parser.add_argument("--port", type=int, default=0, help="port; 0 takes a free one (default)")
    parser.add_argument("--log", type=Path, help="a file for all that the engine says")


def recipe_of(args: argparse.Namespace) -> Recipe:
    """Raises SpecError."""
    engine = Engine(args.engine)
    given = {
        name: options.named(OPTIONS[engine], name, "--option").of_text(text)
        for name, text in options.pairs(args.option, "--option")
    }
    data: dict[str, Any] = {
        "engine": engine,
        "model": args.model,
        "options": given,
        "environment": dict(options.pairs(args.env, "--env")),
        "threads": args.threads,
        "cores": options.cores(args.cores, "--cores"),
        "command": args.template,
        "ready_s": args.ready,
    }
    return Recipe.from_json(data)


def arguments(recipe: Recipe) -> list[str]:
    """The arguments that start the same engine by hand."""
    found = [recipe.engine.value]
    if recipe.model:
        found += ["--model", recipe.model]
    for name, value in recipe.options.items():
        found += ["--option", f"{name}={options.typed(value)}"]
    for name, text in recipe.environment.items():
        found += ["--env", f"{name}={text}"]
    if recipe.threads:
        found += ["--threads", str(recipe.threads)]
    if recipe.cores:
        found += ["--cores", ",".join(map(str, recipe.cores))]
    if recipe.command:
        found += ["--command", recipe.command]
    return found if recipe.ready_s == Recipe.ready_s else [*found, "--ready", f"{recipe.ready_s:g}"]


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM, SIGINT or the engine's own end; prints one JSON line with the address when ready."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    try:
        with launch(recipe_of(args), args.log, _tell(stopped), args.port) as engine:
            print(json.dumps({"ready": True, "url": engine.url, "model": engine.model}), flush=True)
            while engine.alive and not stopped.wait(_LOOK_S):
                pass
            if not engine.alive:
                print(f"the engine has ended. Its last words:\n{engine.log_tail()}", file=sys.stderr)
                return Exit.UNUSABLE
    except SpecError as error:
        print(error, file=sys.stderr)
        return Exit.USAGE
    except EngineError as error:
        print(error, file=sys.stderr)
        return Exit.UNUSABLE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.VALID


def _tell(stopped: threading.Event) -> Any:
    def tell(words: str) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        if sys.stderr.isatty():
            print(f"\r{words} ", end="", file=sys.stderr, flush=True)

    return tell
