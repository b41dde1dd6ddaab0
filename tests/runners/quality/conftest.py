from pathlib import Path
from typing import Any

import orjson
import pytest

from runners.quality.evaluation import Evaluation
from runners.quality.spec import QualitySpec
from runners.quality.tasks import TaskSet
from runners.spec import Target


class Silent:
    """A progress that keeps how it ended."""

    def __init__(self) -> None:
        self.states: list[dict[str, Any]] = []
        self.said: tuple[int, bool, str, str] | None = None

    def update(self, state: dict[str, Any]) -> None:
        self.states.append(state)

    def end(self, exit_status: int, valid: bool, code: str = "", text: str = "") -> None:
        self.said = exit_status, valid, code, text


class Evaluated:
    """One evaluation run to its end: its exit status, last words, and the files it left."""

    def __init__(self, spec: QualitySpec, out: Path) -> None:
        out.mkdir()
        self.out = out
        progress = Silent()
        self.status = Evaluation(spec, out, progress).run()
        assert progress.said is not None
        self.code, self.text = progress.said[2:]

    @property
    def quality(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads((self.out / "quality.json").read_bytes())
        return found


@pytest.fixture
def evaluate(tmp_path: Path) -> Any:
    """Runs an evaluation of ``items`` against ``target``."""

    def run(target: Target, items: list[dict[str, Any]], **more: Any) -> Evaluated:
        spec = QualitySpec(target, TaskSet("mine", tuple(items)), **more)
        return Evaluated(spec, tmp_path / f"out{len(list(tmp_path.iterdir()))}")

    return run
