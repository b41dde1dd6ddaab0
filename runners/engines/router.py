"""A router with the engines behind it, in a process of its own: all are started here, and end together.

When one ends, all end: what is left is no longer what the recipe says, and must not be measured as if it were.
"""

import json
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from runners.address import parse_endpoint
from runners.engines.launch import EngineError, RunningEngine, launch
from runners.engines.recipe import Recipe, SpecError
from runners.router.options import UPSTREAMS, settings_of
from runners.router.serving import serve
from runners.router.upstream import Upstream

_FAILED = 3
#: Stands in options of the engines for a folder of theirs, empty at first, which goes with the router.
SCRATCH = "{scratch}"


def main(argument: str) -> int:
    """``argument``: host, port and the options of the recipe, as JSON. Serves until SIGTERM or SIGINT."""
    asked = json.loads(argument)
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda found, _: stopped.append(found))
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        try:
            upstreams = json.loads(json.dumps(asked["options"][UPSTREAMS]).replace(SCRATCH, scratch))
            recipes = [Recipe.from_json(upstream) for upstream in upstreams]
            engines = [stack.enter_context(launch(recipe, tell=_tell(stopped))) for recipe in recipes]
        except (EngineError, SpecError) as error:
            print(f"router: {error}", file=sys.stderr)
            return _FAILED
        except InterruptedError:
            return 0
        behind = [_upstream(index, engine) for index, engine in enumerate(engines)]
        words = serve(settings_of(asked["options"]), behind, asked["host"], asked["port"], _trouble(engines))
        if words:
            print(words, file=sys.stderr)
        return _FAILED if words else 0


def _upstream(index: int, engine: RunningEngine) -> Upstream:
    return Upstream(str(index), parse_endpoint(engine.url), engine.model)


def _tell(stopped: Sequence[int]) -> Callable[[str], None]:
    def tell(words: str) -> None:
        if stopped:
            raise InterruptedError

    return tell


def _trouble(engines: Sequence[RunningEngine]) -> Callable[[], str]:
    def trouble() -> str:
        for index, engine in enumerate(engines):
            if not engine.alive:
                return f"router: engine {index} has ended. Its last words:\n{engine.log_tail()}"
        return ""

    return trouble


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
