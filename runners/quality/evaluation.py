"""One evaluation: settle how the endpoints want to be asked, put every task, add up, write the files."""

import signal
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import orjson

from runners import __version__
from runners.exits import Exit
from runners.load.check import Unusable
from runners.load.records import read_spool
from runners.load.rowfiles import write_parquet
from runners.load.target import api_key
from runners.probe import identify
from runners.progress import Progress, Reports
from runners.quality.answers import Answer, table
from runners.quality.asking import Asking, Settled, settle
from runners.quality.spec import QualitySpec
from runners.quality.summary import quality, result
from runners.quality.tasks import counts
from runners.results import write_failure

#: Names of the two parts in words, and in the names of files.
_PARTS = (("The endpoint", "answers"), ("The reference", "reference"))


class Interrupted(Exception):
    """SIGINT or SIGTERM before the first task."""


class Evaluation:
    """``run`` returns the exit status; all that was answered is in ``out``, whatever happens."""

    def __init__(self, spec: QualitySpec, out: Path, progress: Progress) -> None:
        self.spec = spec
        self.out = out
        self.summary: dict[str, Any] | None = None
        self._tasks = spec.tasks.tasks
        self._progress = progress
        self._reports = Reports(progress, len(spec.targets))
        self._began = datetime.now(UTC).isoformat()
        self._asking: Asking | None = None
        self._stopped = False
        self._results: list[dict[str, Any]] = []
        self._answers: list[list[Answer]] = []

    def run(self) -> Exit:
        """Raises SpecError for what cannot be asked, OSError for files that cannot be written."""
        keys = [api_key(target) for target in self.spec.targets]
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            status, code, text = self._evaluate(keys)
        except Interrupted:
            status, code, text = Exit.INTERRUPTED, "interrupted", "stopped before the first task was put"
        except Unusable as error:
            status, code, text = Exit.UNUSABLE, error.code, error.text
        except OSError as error:
            status, (code, text) = Exit.INVALID, write_failure(error, self.out)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        self._progress.end(status, status == Exit.VALID, code, text)
        return status

    def _evaluate(self, keys: list[str]) -> tuple[Exit, str, str]:
        """Both endpoints must be usable before the first task is put to either."""
        self._reports.say("check", at_once=True)
        waiting = self._while_checking
        pairs = zip(self.spec.targets, keys, strict=True)
        settled = [settle(self.spec, target, key, waiting) for target, key in pairs]
        for stage, one in enumerate(settled):
            if not self._stopped:
                self._ask(one, stage)
        if not self._results:
            raise Interrupted
        self._reports.say("summary", 1.0, at_once=True)
        self.summary = summary = self._summarise()
        self._write(summary)
        if self._stopped:
            return Exit.INTERRUPTED, "interrupted", f"stopped; what was answered is kept in {self.out}"
        if not summary["valid"]:
            return Exit.INVALID, "invalid", "; ".join(item["text"] for item in summary["reasons"])
        return Exit.VALID, "", ""

    def _ask(self, settled: Settled, stage: int) -> None:
        who, name = _PARTS[stage]
        identity = identify(settled.where, settled.requests.headers, secret=settled.requests.key)[:2]
        self._asking = asking = Asking(self.spec, self._tasks, settled, self._spool(stage), stage)
        answers = asking.run(partial(self._tick, asking, stage))
        self._answers.append(answers)
        self._results.append(result(answers, who, _asked(settled, identity)))
        write_parquet(table(answers), self.out / f"{name}.parquet")

    def _spool(self, stage: int) -> Path:
        return self.out / ("requests.arrow" if stage == 0 else "reference-requests.arrow")

    def _while_checking(self, now_ns: int) -> None:
        if self._stopped:
            raise Interrupted
        self._reports.say("check")

    def _tick(self, asking: Asking, stage: int, now_ns: int) -> None:
        done, planned, stages = len(asking.done), len(self._tasks), len(self.spec.targets)
        self._reports.say(
            "measure",
            (stage + done / planned) / stages,
            stage=stage,
            load={"kind": "concurrency", "value": float(self.spec.concurrency)},
            planned=planned,
            sent=asking.sent,
            ok=done - asking.failed,
            failed=asking.failed,
            in_flight=asking.in_flight,
        )

    def _summarise(self) -> dict[str, Any]:
        spec, parts, answers = self.spec, self._results, self._answers
        both = (parts[1], answers[1]) if len(parts) > 1 else (None, [])
        return {
            "version": spec.version,
            "runner_version": __version__,
            "started_at": self._began,
            "ended_at": datetime.now(UTC).isoformat(),
            "tasks": {
                "name": spec.tasks.name,
                "sha256": spec.tasks.sha256,
                "items": len(self._tasks),
                "kinds": counts(self._tasks),
            },
            "asked": {
                "temperature": 0.0,
                "seed": spec.seed,
                "concurrency": spec.concurrency,
                "output_tokens": spec.output_tokens,
            },
            **quality(parts[0], answers[0], *both),
        }

    def _write(self, summary: dict[str, Any]) -> None:
        """quality.json comes last: where it is, everything is."""
        for name in ("requests", "reference-requests"):
            if (spool := self.out / f"{name}.arrow").exists():
                write_parquet(read_spool(spool), self.out / f"{name}.parquet")
                spool.unlink()
        (self.out / "quality.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True
        if self._asking is not None:
            self._asking.stop("interrupted")


def _asked(settled: Settled, identity: tuple[str, str]) -> dict[str, Any]:
    requests = settled.requests
    return {
        "url": settled.where.endpoint.url,
        "model": ", ".join(requests.models),
        "dialect": requests.target.dialect.value,
        "engine": identity[0],
        "engine_version": identity[1],
        "greedy": settled.greedy,
        "seeded": settled.seeded,
        "logprobs": settled.top,
        "omitted_fields": sorted(requests.omit),
    }
