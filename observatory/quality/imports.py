"""Results of lm-evaluation-harness, kept beside our own."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import orjson
from django.contrib.auth.models import User

from observatory.catalog.models import Deployment
from observatory.quality.models import QualityResult
from observatory.runs.models import Run
from observatory.runs.plain import plain
from runners.quality.lmeval import LmEval, parse, read
from runners.strict_json import SpecError


def add(data: bytes, deployment: Deployment, user: User | None, beside: Run | None = None) -> QualityResult:
    """Raises SpecError that says what is wrong with the file."""
    return _keep(read(data), deployment, user, beside)


def add_parsed(said: Any, deployment: Deployment, user: User | None, beside: Run | None = None) -> QualityResult:
    """The same with the file's content."""
    return _keep(parse(said), deployment, user, beside)


def _keep(found: LmEval, deployment: Deployment, user: User | None, beside: Run | None) -> QualityResult:
    if beside is not None and (beside.deployment_id != deployment.pk or beside.kind != Run.Kind.LOAD):
        raise SpecError("run: give a load run of the same deployment, or none")
    headline = found.headline()
    return QualityResult.objects.create(
        deployment=deployment,
        beside=beside,
        source=QualityResult.Source.LM_EVAL,
        task_set=plain(_name(found)),
        tasks_sha256=_fingerprint(found),
        metric=plain(f"{headline.metric}, {headline.task}"[:200]) if headline else "several",
        value=headline.value if headline else None,
        low=headline.low if headline else None,
        high=headline.high if headline else None,
        n=headline.n if headline else None,
        summary=plain(found.to_json()),
        measured_at=_when(found),
        created_by=user,
    )


def _tasks(found: LmEval) -> list[str]:
    return list(dict.fromkeys(score.task for score in found.scores))


def _name(found: LmEval) -> str:
    """Such as "lm-eval: arc_easy, hellaswag"."""
    name = f"lm-eval: {', '.join(_tasks(found))}"
    return name if len(name) <= 200 else f"{name[:197]}..."


def _fingerprint(found: LmEval) -> str:
    """Equal for files of the same tasks, metrics, shots and numbers of samples."""
    asked = sorted((one.task, one.metric, one.filter, one.shots, one.n) for one in found.scores)
    return sha256(orjson.dumps(asked)).hexdigest()


def _when(found: LmEval) -> datetime | None:
    try:
        return None if found.date is None else datetime.fromtimestamp(found.date, UTC)
    except (OverflowError, ValueError, OSError):
        return None
