"""``manage.py study NAME``: carries out a ready-made study on this machine and says what it found."""

import json
import sys
import time
from argparse import BooleanOptionalAction
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from observatory.demo import site
from observatory.demo.supervisor import Claim, Supervisor, SupervisorError, interrupt_on_signals
from observatory.demo.ticking import Ticking
from observatory.runs.models import Run
from observatory.studies import ready_made, trials, verdict
from observatory.studies.findings import Cell, Result
from observatory.studies.measures import DesignError
from observatory.studies.models import Study, Trial
from observatory.studies.quality_words import right
from observatory.studies.words import change, interval
from runners.metrics import display, significant


class Command(BaseCommand):
    help = "Carry out a ready-made study here; the worker starts its engines. Without a name: list them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="such as prefix-caching, or the number of one")
        parser.add_argument(
            "--short", action="store_true", help="few requests: it shows that all works, and little more"
        )
        parser.add_argument("--repeats", type=int, help="how often each arm runs")
        parser.add_argument(
            "--quality",
            action=BooleanOptionalAction,
            help="put questions to each arm, too; by default where the technique may change answers",
        )
        parser.add_argument("--json", action="store_true", help="the result as JSON on standard output")

    def handle(self, *args: Any, name: str | None, short: bool, repeats: int | None, **options: Any) -> None:
        if not name:
            for item in ready_made.READY_MADE:
                self.stdout.write(f"{item.number:>2}  {item.slug:<22} {item.question}")
            return
        found = next((item for item in ready_made.READY_MADE if name in (item.slug, str(item.number))), None)
        if found is None:
            raise CommandError(f"There is no study {name!r}. Known are {', '.join(ready_made.BY_SLUG)}.")
        interrupt_on_signals()
        self._quiet = options["json"]
        found = found.asking(options["quality"])
        try:
            trial = self._carried_out(found.shortened() if short else found, repeats)
        except (SupervisorError, DesignError) as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            sys.exit(130)
        self._report(trial)
        sys.exit(0 if trial.status == Trial.Status.FINISHED else 1)

    def _carried_out(self, chosen: ready_made.ReadyMade, repeats: int | None) -> Trial:
        claim = Claim()
        try:
            if not claim.take():
                self._say(f"the observatory runs already ({claim.running()[0]}); its parts are used")
                return self._measured(self._made(chosen, repeats), lambda: None)
            user = site.prepare()
            supervisor = Supervisor(8000, beat=False)
            try:
                supervisor.start_bench()
                return self._measured(self._made(chosen, repeats, user), Ticking(supervisor))
            finally:
                supervisor.stop()
        finally:
            claim.close()

    def _made(self, chosen: ready_made.ReadyMade, repeats: int | None, user: Any = None) -> Study:
        taken = Study.objects.filter(template=chosen.slug).count()
        return ready_made.make(chosen, f"{chosen.title} {taken + 1}", user, repeats=repeats)

    def _measured(self, study: Study, check: Callable[[], None]) -> Trial:
        trial = trials.start(study, Run.Trigger.DEMO, study.created_by)
        told = 0
        try:
            while not trial.ended:
                check()
                time.sleep(0.5)
                trial.refresh_from_db()
                told = self._tell(trial, told)
        except BaseException:
            trials.cancel(trial)
            raise
        return trial

    def _tell(self, trial: Trial, told: int) -> int:
        """A line for each run that is over; how many were told."""
        slots = list(trial.slots.select_related("run", "arm"))
        over = [slot for slot in slots if slot.note or (slot.run is not None and slot.run.ended)]
        for slot in over[told:]:
            words = slot.note if slot.run is None else f"run {slot.run_id} {slot.run.status} {slot.run.reason}"
            self._say(f"  {slot.index + 1:>3} of {len(slots)}  {slot}: {words}")
        return len(over)

    def _report(self, trial: Trial) -> None:
        result = verdict.of(trial)
        if self._quiet:
            self.stdout.write(json.dumps(verdict.to_json(result), indent=2, allow_nan=False))
            return
        for row in result.rows:
            self._say(f"\n{row.measure.label}, {row.measure.better} is better")
            for found, cell in zip(result.arms, row.cells, strict=True):
                self._say(f"  {found.arm.name:<24} {_cell_words(cell, row.measure.metric.unit)}")
        self._quality(result)
        self._closing(result)

    def _quality(self, result: Result) -> None:
        quality = result.quality
        if quality.asked:
            self._say(f"\nQuality on {quality.task_set}, higher is better")
            for one in quality.arms:
                self._say(f"  {one.arm.name:<24} {right(one)}")

    def _closing(self, result: Result) -> None:
        self._say(f"\n{result.answer}")
        for note in result.notes:
            self._say(f"- {note}")
        for missing in result.missing:
            self._say(f"Missing: {missing.arm}, repeat {missing.repeat}: {missing.reason}")

    def _say(self, text: str) -> None:
        if not self._quiet:
            self.stdout.write(text)
            self.stdout.flush()


def _cell_words(cell: Cell, unit: str) -> str:
    if cell.mean is None:
        return "–"
    words = " ".join(display(cell.mean.value, unit)).strip()
    if cell.mean.low is not None:
        words += (
            f" ({' to '.join(' '.join(display(bound, unit)).strip() for bound in (cell.mean.low, cell.mean.high))})"
        )
    if cell.mark != "measured":
        words += f" {cell.mark}"
    if cell.effect and cell.effect.estimate:
        spread = interval(cell.effect, unit)
        words += f"; {change(cell.effect, unit)}{f' ({spread})' if spread else ''}: {cell.effect.word}"
    if cell.predicted:
        value = " ".join(display(cell.predicted.value, unit)).strip()
        ratio = cell.measured_over_predicted
        words += f"; predicted {value}" + (f", measured / predicted {significant(ratio, 2)}" if ratio else "")
        words += f" ({cell.predicted.reason})" if cell.predicted.reason else ""
    return words
