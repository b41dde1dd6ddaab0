"""Which stages a compare page shows: ``runs=12,15`` and, in the same order, ``stage=2,0``; both live in the URL.

The list of runs may also send ``run=12&run=15``. A run may appear twice, to compare its own stages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from observatory.compare.comparison import MAX_STAGES
from observatory.runs.models import Run, Stage

Load = tuple[str, float]


@dataclass(frozen=True)
class Selection:
    """``stages`` are one a run; ``common`` are the loads that all runs have; ``problems`` are for people to read."""

    runs: tuple[Run, ...]
    stages: tuple[Stage, ...]
    common: tuple[Load, ...]
    problems: tuple[str, ...]

    @property
    def address(self) -> str:
        return address(self.runs, self.stages)

    @property
    def same_load(self) -> bool:
        return len({load_of(stage) for stage in self.stages}) <= 1

    def at(self, load: Load) -> str:
        """The address of the same runs, all at ``load``."""
        return address(self.runs, [_at(run, load) for run in self.runs])

    def without(self, position: int) -> str:
        return address(*_drop(self.runs, self.stages, position))

    def first(self, position: int) -> str:
        """The address with the stage at ``position`` as the baseline."""
        runs, stages = _drop(self.runs, self.stages, position)
        return address((self.runs[position], *runs), (self.stages[position], *stages))


def address(runs: Sequence[Run], stages: Sequence[Stage | None] = ()) -> str:
    query = {"runs": ",".join(str(run.pk) for run in runs)}
    if stages:
        query["stage"] = ",".join("" if stage is None else str(stage.index) for stage in stages)
    return f"{reverse('compare')}?{urlencode(query, safe=',')}"


def _drop(runs: tuple[Run, ...], stages: tuple[Stage, ...], position: int) -> tuple[tuple[Run, ...], tuple[Stage, ...]]:
    return runs[:position] + runs[position + 1 :], stages[:position] + stages[position + 1 :]


def load_of(stage: Stage) -> Load:
    return stage.load_kind, stage.load_value


def select(query: QueryDict) -> Selection:
    asked = [part for text in (*query.getlist("runs"), *query.getlist("run")) for part in text.split(",") if part]
    wanted = ",".join(query.getlist("stage")).split(",")
    problems = [f"{part!r} is not the number of a run." for part in asked if not _is_id(part)]
    ids = [int(part) for part in asked if _is_id(part)]
    if len(ids) > MAX_STAGES:
        problems.append(f"Only the first {MAX_STAGES} of {len(ids)} runs are compared.")
        ids = ids[:MAX_STAGES]
    stored = Run.objects.select_related("benchmark", "deployment", "endpoint").prefetch_related("stages__measurements")
    known = stored.in_bulk(set(ids))
    chosen: list[tuple[Run, str]] = []
    for position, pk in enumerate(ids):
        run = known.get(pk)
        if run is None:
            problems.append(f"Run {pk} does not exist.")
        elif not run.stages.all():
            problems.append(f"Run {pk} is {run.status} and has no stage with numbers, so it is left out.")
        else:
            chosen.append((run, wanted[position] if position < len(wanted) else ""))
    runs = [run for run, _ in chosen]
    common = _common(runs)
    stages = [_stage(run, index, _best(runs, common)) for run, index in chosen]
    return Selection(tuple(runs), tuple(stages), common, tuple(problems))


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16


def _common(runs: Sequence[Run]) -> tuple[Load, ...]:
    if not runs:
        return ()
    loads = [{load_of(stage) for stage in run.stages.all()} for run in runs]
    return tuple(sorted(set.intersection(*loads)))


def _best(runs: Sequence[Run], common: Sequence[Load]) -> Load | None:
    """The highest load at which every run has a sound stage, else the highest that all have."""
    sound = [
        load for load in common if all(stage is not None and stage.verdict == "ok" for stage in _all_at(runs, load))
    ]
    return max(sound or common, default=None)


def _all_at(runs: Sequence[Run], load: Load) -> list[Stage | None]:
    return [_at(run, load) for run in runs]


def _at(run: Run, load: Load) -> Stage | None:
    return next((stage for stage in run.stages.all() if load_of(stage) == load), None)


def _stage(run: Run, index: str, best: Load | None) -> Stage:
    """The stage asked for, else the one at the best common load, else the last sound one."""
    stages = list(run.stages.all())
    asked = next((stage for stage in stages if str(stage.index) == index), None)
    common = _at(run, best) if best else None
    sound = [stage for stage in stages if stage.verdict == "ok"]
    return asked or common or (sound or stages)[-1]
