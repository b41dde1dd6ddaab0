import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from observatory.demo.supervisor import Part, Supervisor, SupervisorError
from tests.services.site import wait_for


@pytest.fixture
def supervisor(settings: Any, tmp_path: Path) -> Any:
    settings.VAR_DIR = tmp_path
    supervisor = Supervisor(8500)
    yield supervisor
    supervisor.stop()


def test_a_part_that_dies_is_started_again(supervisor: Supervisor) -> None:
    part = Part("sleeper", ["sleep", "60"])
    supervisor.run(part)
    assert part.process
    first = part.process.pid
    supervisor.check()
    assert part.process.pid == first
    part.started_s -= 60  # a minute passes
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: part.ended)
    supervisor.check()
    assert part.process.pid != first
    assert not part.ended


def test_a_part_that_cannot_start_is_told_with_its_last_words(supervisor: Supervisor) -> None:
    part = Part("broken", [sys.executable, "-c", "raise SystemExit('no licence for this')"])
    supervisor.run(part)
    wait_for(lambda: part.ended)
    with pytest.raises(SupervisorError, match="broken ended with status 1") as raised:
        supervisor.check()
    assert "broken.log" in str(raised.value)
    assert "no licence for this" in str(raised.value)


def test_parts_that_ignore_sigterm_are_killed_with_all_that_they_started(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("observatory.demo.supervisor._STOP_S", 0.5)
    script = f"trap '' TERM; (trap '' TERM; sleep 60) & echo $! > {tmp_path}/child; while true; do sleep 1; done"
    part = Part("deaf", ["sh", "-c", script])
    supervisor.run(part)
    child = int(wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip()))
    supervisor.stop()
    assert part.ended
    wait_for(lambda: not Path(f"/proc/{child}/cmdline").exists() or not Path(f"/proc/{child}/cmdline").read_bytes())
