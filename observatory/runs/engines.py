"""The engine of a run whose endpoint the observatory starts itself: made ready on the worker before, ended after."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from observatory.catalog import recipes
from observatory.runs.ingest import Ending
from observatory.runs.models import Run
from observatory.runs.spool import Copier
from observatory.runs.watch import Renew, Verdict, Watch
from runners.engines.launch import EngineError, RunningEngine, launch
from runners.engines.recipe import SpecError

#: What is kept of the engine beside the results, until they are collected.
FACTS_FILE = "engine.json"


class NotMeasuredError(Exception):
    """The run has ended before its engine was ready."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.text)
        self.ending = ending


class _Start:
    """The start of an engine as something that can be watched; ``watch`` says whether it may go on."""

    def __init__(self) -> None:
        self.progress: dict[str, Any] = {}

    def tell(self, watch: Watch) -> Callable[[str], None]:
        def tell(words: str) -> None:
            self.progress = {"phase": "engine", "text": words}
            if watch.verdict is Verdict.CANCEL:
                text = "Cancelled while its engine started; nothing was sent."
                raise NotMeasuredError(Ending(Run.Status.CANCELLED, "cancelled", text))
            if watch.verdict is Verdict.LOST:
                text = "The worker could not reach the database while its engine started. Nothing was sent."
                raise NotMeasuredError(Ending(Run.Status.LOST, "lease_lost", text))

        return tell


@contextmanager
def running(run: Run, directory: Path, secret: str, renew: Renew) -> Iterator[RunningEngine | None]:
    """The engine of the run, ready; None where its endpoint is a server that others run. Raises NotMeasuredError."""
    asked = run.setup["endpoint"].get("recipe")
    if not asked:
        yield None
        return
    start = _Start()
    with ExitStack() as engines:
        try:
            recipe = recipes.read(asked)
            with Watch(start, Copier(run, directory, secret), secret, renew) as watch:
                engine = engines.enter_context(launch(recipe, directory / "engine.log", start.tell(watch)))
        except (EngineError, SpecError) as error:
            raise NotMeasuredError(Ending(Run.Status.FAILED, "engine_not_started", str(error))) from None
        yield engine


def aimed(run: Run, engine: RunningEngine | None) -> dict[str, Any]:
    """The run's specification, aimed at the engine where there is one."""
    if engine is None:
        return dict(run.spec)
    target = run.spec["target"]
    return {**run.spec, "target": {**target, "url": engine.url, "model": target["model"] or engine.model}}


def died(engine: RunningEngine | None) -> Ending | None:
    """How the run ends when its engine has ended under it."""
    if engine is None or engine.alive:
        return None
    words = "The engine ended while it was measured; what was measured until then is kept. Its last words:"
    return Ending(Run.Status.FAILED, "engine_ended", f"{words}\n{engine.log_tail()}")


def end(engine: RunningEngine | None, directory: Path) -> None:
    """Stops it, and leaves what is to be known of it with the results."""
    if engine is not None:
        engine.stop()
        (directory / FACTS_FILE).write_text(json.dumps(engine.facts(), allow_nan=False))
