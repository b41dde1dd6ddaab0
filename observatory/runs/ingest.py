"""From the files that an instrument left to rows, in one transaction that ends the run or changes nothing."""

import logging
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import transaction

from observatory.runs import disk, merging, money, plain, spool, states
from observatory.runs.models import Measurement, Run, Stage
from runners.load.judgement import reason
from runners.load.rowfiles import ParquetRows, Rows, SpoolRows, write_parquet
from runners.load.summary import summarise
from runners.metrics import STATISTICS
from runners.spec import RunSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ending:
    """How a run ended, in a code for programs and in words for people."""

    status: Run.Status
    code: str = ""
    text: str = ""


@dataclass(frozen=True)
class Results:
    """What was measured: the summary and the names in storage of the raw rows. Any of it may be missing; ``fault``
    says why raw rows are.
    """

    summary: dict[str, Any] | None = None
    requests_file: str = ""
    power_file: str = ""
    server_file: str = ""
    answers_file: str = ""
    fault: str = ""
    settled_usd: Decimal | None = None


_TABLES = ("requests", "power", "server", "answers")
_SUMMARIES = {Run.Kind.LOAD: "summary.json", Run.Kind.QUALITY: "quality.json"}


def collect(run: Run, directory: Path, secret: str = "") -> Results:
    """Puts the raw rows in ``directory`` into storage and reads the summary, or makes one of the partial rows."""
    requests, power, server, answers = (raw_rows(directory, name) for name in _TABLES)
    summary = _with_engine(_summary(run, directory, requests, secret), directory, secret)
    settled = money.settled(run, requests)
    try:
        return Results(
            summary,
            settled_usd=settled,
            requests_file=store(spool.folder(run), requests, "requests.parquet", secret),
            power_file=store(spool.folder(run), power, "power.parquet", secret),
            server_file=store(spool.folder(run), server, "server.parquet", secret),
            answers_file=store(spool.folder(run), answers, "answers.parquet", secret),
        )
    except Exception as error:  # each kind of storage has errors of its own
        logger.exception("run %s: the raw rows could not be stored", run.pk)
        return Results(summary, settled_usd=settled, fault=_not_stored(error))


def _not_stored(error: Exception) -> str:
    why = (isinstance(error, OSError) and error.strerror) or type(error).__name__
    fix = f" {disk.what_to_do(error)} Start a new run if its rows are needed." if disk.full(error) else ""
    return f"The raw rows could not be stored: {why}.{fix}"


def raw_rows(directory: Path, name: str) -> Rows | None:
    """The finished Parquet file, else every whole batch of the spool, else None."""
    parquet, arrow = directory / f"{name}.parquet", directory / f"{name}.arrow"
    if parquet.exists():
        try:
            return ParquetRows(parquet)
        except (pa.ArrowException, OSError):
            logger.warning("%s is not whole; the spool is read instead", parquet.name)
    return SpoolRows(arrow) if arrow.exists() else None


def _summary(run: Run, directory: Path, requests: Rows | None, secret: str) -> dict[str, Any] | None:
    path = directory / _SUMMARIES[Run.Kind(run.kind)]
    if path.exists():
        try:
            summary = plain.loads(path.read_bytes(), secret)
        except ValueError:
            logger.warning("run %s: %s is not whole; the rows are added up instead", run.pk, path.name)
        else:
            return summary if isinstance(summary, dict) else None
    if requests is None or not requests.num_rows or run.kind != Run.Kind.LOAD:
        return None
    return _partial_summary(run, requests, secret)


def _with_engine(summary: dict[str, Any] | None, directory: Path, secret: str) -> dict[str, Any] | None:
    """The engine that was started for the run becomes part of its environment."""
    path = directory / "engine.json"
    if summary is not None and path.exists():
        summary["environment"] = (summary.get("environment") or {}) | {"engine": plain.loads(path.read_bytes(), secret)}
    return summary


def _partial_summary(run: Run, requests: Rows, secret: str) -> dict[str, Any] | None:
    """What the rows of a cut-off run say: its last stage is interrupted, and energy is left out."""
    try:
        summary = summarise(requests, RunSpec.from_json(run.spec))
    except Exception:  # rows cut off anywhere must never keep a run from ending
        logger.exception("run %s: its rows could not be added up", run.pk)
        return None
    summary["valid"] = False
    summary["reasons"].insert(0, reason("interrupted", "The run did not reach its end; these are the rows kept."))
    summary["stages"][-1]["verdict"] = "interrupted"
    kept: dict[str, Any] = plain.plain(summary, secret)
    return kept


def store(folder: str, rows: Rows | pa.Table | None, name: str, secret: str) -> str:
    """Puts rows into storage without the secret; the name that they got there, empty without rows. Raises OSError."""
    if rows is None or not rows.num_rows:
        return ""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / name
        write_parquet(rows, path, lambda group: plain.masked_table(group, secret))
        with path.open("rb") as file:
            return default_storage.save(f"{folder}/{name}", File(file))


def discard(results: Results) -> None:
    """Takes back from storage what ``collect`` put there."""
    for name in (results.requests_file, results.power_file, results.server_file, results.answers_file):
        remove(name)


def remove(name: str) -> None:
    """Takes back what ``store`` put into storage; nothing for an empty name."""
    if name:
        default_storage.delete(name)


def close(run: Run, ending: Ending, results: Results, end: Callable[..., bool] = states.end) -> bool:
    """Ends the run with its results. False: the run was not the caller's to end, and nothing was changed.

    Of the raw rows in storage either the parts go, which the files replace, or the files that nobody will point to.
    """
    summary = results.summary or {}
    valid = ending.status is Run.Status.FINISHED and summary.get("valid") is True
    code, text = (ending.code, ending.text) if ending.code or valid else _reasons(summary)
    with transaction.atomic():
        ended = end(
            run,
            ending.status,
            valid=valid,
            reason_code=code[:60],
            reason=f"{text} {results.fault}".strip(),
            summary=results.summary,
            definitions_version=summary.get("definitions_version"),
            requests_file=results.requests_file,
            power_file=results.power_file,
            server_file=results.server_file,
            answers_file=results.answers_file,
            settled_usd=results.settled_usd,
        )
        if ended:
            store_stages(run, summary)
    if ended:
        spool.discard(run)
    else:
        discard(results)
    return ended


def _reasons(summary: dict[str, Any]) -> tuple[str, str]:
    """The first reason's code and the words of all."""
    reasons = summary.get("reasons") or [{}]
    return str(reasons[0].get("code", "")), "; ".join(str(item.get("text", "")) for item in reasons)


def store_stages(run: Run, summary: dict[str, Any]) -> None:
    """Stage and Measurement rows of a summary, in the place of those that were there."""
    run.stages.all().delete()
    measurements: list[Measurement] = []
    for stage in summary.get("stages", []):
        measurements += _measurements(run, _stage(run, stage), stage.get("metrics") or {})
    Measurement.objects.bulk_create(measurements)


def _stage(run: Run, stage: dict[str, Any]) -> Stage:
    window = stage.get("window") or {}
    return Stage.objects.create(
        run=run,
        index=stage["index"],
        load_kind=stage["load"]["kind"],
        load_value=stage["load"]["value"],
        repeat=stage.get("repeat") or 1,
        verdict=stage["verdict"],
        reasons=stage.get("reasons") or [],
        planned=stage["planned"],
        ok=stage["ok"],
        failed=stage["failed"],
        cancelled=stage["cancelled"],
        not_sent=stage["not_sent"],
        failures=stage.get("failures") or {},
        window_kind=window.get("kind") or "",
        window_s=window.get("seconds"),
        energy=stage.get("energy"),
        cost=stage.get("cost"),
    )


def _measurements(run: Run, stage: Stage, metrics: dict[str, Any]) -> list[Measurement]:
    """A row for each number that is there: what is missing has no row."""
    return [
        Measurement(
            run=run,
            stage=stage,
            metric=key,
            statistic=statistic,
            value=numbers[statistic],
            low=numbers.get("low") if statistic == "mean" else None,
            high=numbers.get("high") if statistic == "mean" else None,
            n=numbers.get("n"),
            mark=numbers.get("mark") or "measured",
        )
        for key, numbers in metrics.items()
        if numbers
        for statistic in STATISTICS
        if numbers.get(statistic) is not None
    ]


_SILENT = "The worker fell silent while it measured."
_START_ANEW = "nothing was sent again. Check the load host, then start a new run."


def _stored(run: Run, directory: Path, ending: Ending) -> Path:
    """Brings the rows in storage, of all load hosts, into a folder beneath ``directory``."""
    own = directory / "0"
    own.mkdir()
    spool.fetch(run, own)
    return own if run.load_hosts == 1 else merging.merged(run, directory, reason(ending.code, ending.text))


def salvage(run: Run) -> bool:
    """Ends a run whose worker vanished as lost, with the rows that had reached storage."""
    ending = Ending(Run.Status.LOST, "worker_lost", f"{_SILENT} What it had stored is kept; {_START_ANEW}")
    with tempfile.TemporaryDirectory() as directory:
        results = collect(run, _stored(run, Path(directory), ending))
    return close(run, ending, results, end=states.lose)


def abandon(run: Run) -> bool:
    """Ends a run whose worker vanished as lost, without its rows: they could not be read. Storage is left as it is."""
    where = f"could not be read and stay in storage as {spool.folder(run)}"
    text = f"{_SILENT} The rows that it had stored {where}; {_START_ANEW}"
    return states.lose(
        run,
        Run.Status.LOST,
        valid=False,
        reason_code="worker_lost",
        reason=text,
    )
