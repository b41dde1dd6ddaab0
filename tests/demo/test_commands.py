"""``manage.py serve`` and ``demo`` as people start them: every part real, in processes of their own."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Accelerator, Endpoint
from observatory.demo import site
from observatory.demo.supervisor import Claim, SupervisorError, free_port
from observatory.runs.models import Run
from observatory.runs.processes import kill_group, spawn
from observatory.schedules.models import Schedule
from tests.questions import ask
from tests.services.site import ROOT, database, wait_for

PARTS = ("valkey", "engine llama.cpp", "gunicorn", "-Q bench", "-Q control", "observatory beat")


class Home:
    """A VAR_DIR of its own, and the commands that run on it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="demo-"))
        self.url = f"sqlite:///{self.directory / 'observatory.sqlite3'}"
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, *argv: str, **variables: str) -> "subprocess.Popen[bytes]":
        with self.output(len(self._children)).open("wb") as output:
            child = spawn(
                [sys.executable, "manage.py", *argv],
                env=os.environ | {"VAR_DIR": str(self.directory), "TICK_S": "2"} | variables,
                cwd=str(ROOT),
                stdout=output,
                stderr=output,
                death_signal=signal.SIGKILL,
            )
        self._children.append(child)
        return child

    def output(self, number: int) -> Path:
        return self.directory / f"output-{number}"

    def said(self, number: int = 0) -> str:
        return self.output(number).read_text(errors="replace")

    def parts(self) -> list[str]:
        """Command lines of the parts that run on this VAR_DIR."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                environment = (path / "environ").read_bytes()
                line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            ours = f"VAR_DIR={self.directory}".encode() in environment.split(b"\0") or str(self.directory) in line
            if ours and "manage.py" not in line:  # Valkey overwrites its environment with its title
                found.append(line)
        return found

    def address(self, number: int = 0) -> str:
        def look() -> "re.Match[str] | None":
            assert self._children[number].poll() is None, self.said(number)
            return re.search(r"http://127\.0\.0\.1:\d+/", self.said(number))

        return str(wait_for(look, 90).group(0))

    def close(self) -> None:
        for child in self._children:
            kill_group(child)
        wait_for(lambda: not self.parts(), 20, str(self.parts()))
        shutil.rmtree(self.directory)


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    try:
        yield home
    finally:
        home.close()


@pytest.fixture
def prepared(home: Home, settings: Any, django_db_blocker: Any) -> Iterator[Home]:
    """With a demo benchmark of a few seconds."""
    settings.VAR_DIR = home.directory
    with django_db_blocker.unblock(), database(home.url):
        user = site.prepare()
        site.benchmark("http://127.0.0.1:9", user)
        ask(Benchmark.objects.get(), levels=[1, 2], duration_s=None, requests=4, warmup_s=0, output_tokens=8)
        yield home


def test_one_serve_runs_every_part_for_all_who_come_and_ctrl_c_ends_it(prepared: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        serving = prepared.start("serve", "--port", str(port))
        address = prepared.address()
        assert str(port) not in address
    assert urllib.request.urlopen(f"{address}login", timeout=10).status == 200
    running = "\n".join(prepared.parts())
    assert [part for part in PARTS if part not in running] == []
    assert f"password {(prepared.directory / 'admin_password').read_text()}" in prepared.said()
    assert (prepared.directory / "admin_password").stat().st_mode & 0o077 == 0

    assert prepared.start("serve").wait(60) == 0
    assert f"runs already: {address}" in prepared.said(1)

    beside = prepared.start("demo", "--once").wait(120)
    assert "its parts are used" in prepared.said(2)
    assert address in prepared.said(2)
    assert beside == (0 if Run.objects.get().valid else 1)

    serving.send_signal(signal.SIGINT)
    assert serving.wait(30) == 0
    assert prepared.parts() == []


def test_after_kill_9_nothing_is_left_and_the_demo_runs_and_ends_by_itself(prepared: Home) -> None:
    serving = prepared.start("serve")
    prepared.address()
    os.kill(serving.pid, signal.SIGKILL)
    serving.wait(10)
    wait_for(lambda: not prepared.parts(), 20)

    schedule = Schedule.objects.create(benchmark=Benchmark.objects.get(), cron="* * * * *", next_due_at=timezone.now())
    status = prepared.start("demo", "--once").wait(150)
    assert not schedule.occurrences.exists()
    run = Run.objects.get()
    assert (run.trigger, run.status) == ("demo", "finished"), prepared.said(1)
    assert status == (0 if run.valid else 1)
    said = prepared.said(1)
    assert "0 of 8 requests failed" in said
    assert "TTFT p50" in said
    assert re.search(r"c=2 +4/4", said)
    assert prepared.parts() == []
    assert Endpoint.objects.get().url != "http://127.0.0.1:9"


def test_a_broker_that_is_down_or_misspelt_is_told_without_its_password(home: Home) -> None:
    down = f"redis://:hunter2@127.0.0.1:{free_port(24000)}/0"
    shown = f"REDIS_URL={down.replace('hunter2', '**')} cannot be used"
    tried = [
        (down, ("serve",), shown),
        (down, ("demo", "--once"), shown),
        (down, ("study", "prefix-caching"), shown),
        ("redis://:hunter2/canary@localhost:6379/0", ("serve",), "REDIS_URL cannot be read"),
    ]
    for number, (url, command, words) in enumerate(tried):
        assert home.start(*command, REDIS_URL=url).wait(60) == 1
        assert words in home.said(number)
        assert "hunter2" not in home.said(number)
    assert "Connection refused" in home.said()
    assert "Start it" in home.said()
    assert home.parts() == []


def test_the_login_is_told_only_while_the_generated_password_is_in_use(prepared: Home) -> None:
    user = User.objects.get(username="admin")
    assert user.is_superuser
    assert (prepared.directory / "admin_password").read_text() in site.login_words(user)
    user.set_password("one of my own")
    user.save()
    assert site.prepare() == user
    assert "password that you gave it" in site.login_words(user)


def test_preparing_twice_changes_nothing(prepared: Home) -> None:
    before = Accelerator.objects.count()
    assert before > 10
    site.prepare()
    assert (Accelerator.objects.count(), User.objects.count()) == (before, 1)


def test_a_claim_is_had_by_one_and_tells_the_others_where(home: Home, settings: Any) -> None:
    settings.VAR_DIR = home.directory
    first, second = Claim(), Claim()
    assert first.take()
    assert not second.take()
    first.announce("http://127.0.0.1:8000/")
    assert second.running() == ("http://127.0.0.1:8000/", os.getpid())
    first.close()
    assert second.take()
    second.close()


def test_with_no_free_port_the_message_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr("observatory.demo.supervisor._PORTS_TRIED", 1)
        with pytest.raises(SupervisorError, match="--port"):
            free_port(taken.getsockname()[1])


def test_the_help_of_both_commands_says_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    for name, word in (("demo", "--once"), ("serve", "--port")):
        with pytest.raises(SystemExit):
            call_command(name, "--help")
        assert word in capsys.readouterr().out
