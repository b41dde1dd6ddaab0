"""``manage.py serve``: every part of an installation on this machine, until Ctrl-C."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from observatory.demo import site
from observatory.demo.supervisor import Claim, Supervisor, SupervisorError, interrupt_on_signals


class Command(BaseCommand):
    help = "Start broker, embedded engine, web, workers and beat on this machine; Ctrl-C stops them all."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="of the dashboard; a taken one gives the next free")

    def handle(self, *args: Any, port: int, **options: Any) -> None:
        interrupt_on_signals()
        claim = Claim()
        try:
            if claim.take():
                self._serve(claim, port)
            else:
                url, pid = claim.running()
                self.stdout.write(f"The observatory runs already: {url} (process {pid}).")
        except SupervisorError as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            self.stdout.write("stopped")
        finally:
            claim.close()

    def _serve(self, claim: Claim, port: int) -> None:
        user = site.prepare()
        supervisor = Supervisor(port)
        try:
            site.benchmark(supervisor.engine_url, user)
            supervisor.start()
            claim.announce(supervisor.url)
            self.stdout.write(f"{supervisor.url}  {site.login_words(user)}  Ctrl-C stops it.")
            self.stdout.flush()
            while True:
                supervisor.check()
                time.sleep(0.5)
        finally:
            supervisor.stop()
