"""``manage.py demo``: start everything, measure the embedded engine through the real queue, show what came out."""

import sys
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Endpoint
from observatory.demo import site
from observatory.demo.supervisor import Claim, Supervisor, SupervisorError, interrupt_on_signals
from observatory.demo.ticking import Ticking
from observatory.runs import dispatch, states
from observatory.runs.models import Run
from runners.load.report import table
from runners.progress import BarProgress


class Command(BaseCommand):
    help = "Measure the embedded engine at 1, 2, 4 and 8 requests in flight, show the table and serve the dashboard."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="end after the table; the status says if it is valid")
        parser.add_argument("--port", type=int, default=8000, help="of the dashboard; a taken one gives the next free")

    def handle(self, *args: Any, once: bool, port: int, **options: Any) -> None:
        interrupt_on_signals()
        claim = Claim()
        try:
            valid = self._alone(claim, once, port) if claim.take() else self._beside(claim)
        except SupervisorError as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            self._say("stopped")
            sys.exit(130)
        finally:
            claim.close()
        sys.exit(0 if valid else 1)

    def _alone(self, claim: Claim, once: bool, port: int) -> bool:
        self._say("starting the broker, the embedded engine, the web application and the workers")
        user = site.prepare()
        supervisor = Supervisor(port, beat=not once)  # a schedule that came due would be lost as the demo ends
        try:
            benchmark = site.benchmark(supervisor.engine_url, user)
            supervisor.start()
            claim.announce(supervisor.url)
            check = Ticking(supervisor) if once else supervisor.check
            valid = self._measure(benchmark, check)
            if once:
                return valid
            self._say(f"\nLook at it: {supervisor.url}  {site.login_words(user)}\nCtrl-C stops everything.")
            while True:
                supervisor.check()
                time.sleep(0.5)
        finally:
            supervisor.stop()

    def _beside(self, claim: Claim) -> bool:
        """Another process serves already: its parts do the work."""
        url, pid = claim.running()
        self._say(f"the observatory runs already (process {pid}); its parts are used")
        user = site.prepare()
        engine_url = Endpoint.objects.get(name=site.NAME).url
        valid = self._measure(site.benchmark(engine_url, user), lambda: None)
        self._say(f"\nLook at it: {url}  {site.login_words(user)}")
        return valid

    def _measure(self, benchmark: Benchmark, check: Callable[[], None]) -> bool:
        run = states.queue(benchmark, Run.Trigger.DEMO, benchmark.created_by)
        dispatch.publish(run)
        bar = BarProgress()
        self._tell_who_is_first(run)
        while not run.ended:
            check()
            time.sleep(0.5)
            run.refresh_from_db()
            if run.progress:
                bar.update(run.progress)
        bar.end(0, bool(run.valid))
        if run.summary:
            self._say(table(run.summary))
        if not run.valid:
            self._say(f"\nNOT VALID ({run.status}, {run.reason_code}): {run.reason}")
        return bool(run.valid)

    def _tell_who_is_first(self, run: Run) -> None:
        first = Run.objects.filter(endpoint=run.endpoint, status=Run.Status.RUNNING).first()
        if first:
            self._say(
                f"run {first.pk} has the engine to itself until it ends; if its worker is gone, it is given up within "
                f"{settings.RUN_LEASE_S + settings.RUN_HEARTBEAT_S + 2 * settings.TICK_S:.0f} seconds"
            )

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
