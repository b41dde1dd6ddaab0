"""From raw rows to the numbers of a stage and the verdict of a run. Pure: the same rows give the same summary."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from runners.load.dialects import form
from runners.load.flags import flag_reasons
from runners.load.judgement import SAME_READ_LIMIT, Client, Seen, failures, reason, reasons_of, verdict
from runners.load.lengthclasses import length_classes
from runners.load.levels import by_level
from runners.load.outcomes import Outcome
from runners.load.plan import StagePlan, fixed_stages, stage_at
from runners.load.prefixcache import cache_use
from runners.load.rowfiles import Rows, as_rows
from runners.load.rows import MISSING, StageRows, Window
from runners.load.statistics import Bools, Floats, distribution, rate
from runners.loads import long_name
from runners.metrics import DEFINITIONS_VERSION, Mark
from runners.server.summary import reasons as server_reasons
from runners.sources import Agents
from runners.spec import Arrivals, RunSpec

SUMMARY_VERSION = 1

ServerOf = Callable[[StageRows, int, Window | None], dict[str, Any] | None]


def summarise_stage(
    every: Rows | pa.Table,
    plan: StagePlan,
    spec: RunSpec,
    *,
    client: Client | None = None,
    server_of: ServerOf | None = None,
    template_tokens: float | None = None,
) -> dict[str, Any]:
    """One stage in the layout of docs/result-files.md, from the rows that belong to it of ``every``; its energy is
    added by ``runners.energies``.

    ``template_tokens``: how long the endpoint's chat template is, where that is known.
    """
    rows = StageRows(every, plan.index)
    closed, ramped = spec.load.arrivals is Arrivals.CLOSED, spec.load.ramp_from is not None
    window = rows.whole if ramped else rows.window(plan.share.part(int(plan.level)) if closed else None)
    counts = _counts(rows)
    metrics = _metrics(rows, window, spec, counts)
    cache, lengths, flags = cache_use(rows, template_tokens), length_classes(rows), dict(rows.remarks.flags)
    seen = Seen(rows, window, spec, plan, counts, metrics, cache, lengths)
    server = server_of(rows, plan.index, window) if server_of else None
    reasons = reasons_of(seen, client) + flag_reasons(flags, counts["ok"]) + server_reasons(server)
    return {
        "index": plan.index,
        "load": plan.load,
        "repeat": plan.repeat,
        "verdict": verdict(reasons, client),
        "reasons": reasons,
        **counts,
        "failures": failures(rows),
        "flags": flags,
        "window": _window(rows, window),
        "metrics": {key: value for key, value in metrics.items() if value is not None},
        "lengths": [one.to_json() for one in lengths],
        "cache": cache.to_json(),
        "tasks": _tasks(rows),
        "energy": None,
        "cost": _cost(spec),
        "client": asdict(client) if client else None,
        "server": server,
    }


def _window(rows: StageRows, window: Window | None) -> dict[str, Any] | None:
    if window is None:
        return None
    return {**asdict(window), "seconds": window.seconds, "idle_share": rows.idle_share(window)}


def _tasks(rows: StageRows) -> dict[str, int] | None:
    tasks = rows.tasks
    return {"started": tasks.started, "finished": len(tasks.ms)} if tasks.started else None


def summarise(
    rows: Rows | pa.Table,
    spec: RunSpec,
    stages: list[dict[str, Any]] | None = None,
    findings: dict[str, Any] | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """The whole summary; ``facts`` are the run's own (environment, clock, times), ``findings`` what a search found.
    Without ``stages`` they are made from the rows alone, which is how a run that was cut off gets its numbers.
    """
    if stages is None:
        stages = [summarise_stage(rows, plan, spec) for plan in _plans_of(as_rows(rows), spec)]
    bad = [stage for stage in stages if stage["verdict"] != "ok"]
    reasons = list(facts.pop("reasons", []))
    for stage in bad:
        words = "; ".join(item["text"] for item in stage["reasons"]) or stage["verdict"]
        reasons.append(reason(f"stage_{stage['verdict']}", f"{long_name(**stage['load'])}: {words}"))
    found = findings or {}
    missing = 0 if spec.load.search else len(fixed_stages(spec)) - len(stages)
    if missing:
        planned = len(stages) + missing
        reasons.append(reason("stages_not_started", f"{missing} of {planned} stages were not started"))
    if spec.load.search:
        valid = any(found.values()) and not any(stage["verdict"] == "interrupted" for stage in bad)
    else:
        valid = bool(stages) and not bad and not missing
    return {
        "summary_version": SUMMARY_VERSION,
        "definitions_version": DEFINITIONS_VERSION,
        "valid": valid,
        "reasons": reasons,
        "spec": spec.to_json(),
        "stages": stages,
        "levels": by_level(stages),
        **found,
        **facts,
    }


def _plans_of(rows: Rows, spec: RunSpec) -> list[StagePlan]:
    """The stages that have rows. Those of a search are known by the level in their rows alone."""
    levels: dict[int, float | None] = {}
    for batch in rows.batches(["stage", "level"]):
        levels |= dict(zip(batch["stage"].to_pylist(), batch["level"].to_pylist(), strict=True))
    if spec.load.search:
        return [stage_at(spec, index, level or spec.load.levels[0]) for index, level in sorted(levels.items())]
    return [plan for plan in fixed_stages(spec) if plan.index in levels]


# counts


def _counts(rows: StageRows) -> dict[str, int]:
    planned, ok = int(rows.measured.sum()), int(rows.good.sum())
    cancelled, not_sent = (rows.remarks.failures[outcome] for outcome in (Outcome.CANCELLED, Outcome.NOT_SENT))
    failed = planned - ok - cancelled - not_sent
    return {"planned": planned, "ok": ok, "failed": failed, "cancelled": cancelled, "not_sent": not_sent}


# metrics


def _metrics(rows: StageRows, window: Window | None, spec: RunSpec, counts: dict[str, int]) -> dict[str, Any]:
    metrics = _latencies(rows, spec) | _shares(rows, spec, counts)
    if window is None or window.seconds <= 0:
        return metrics
    return metrics | _rates(rows, window, spec, counts) | _money(spec, window, served_in(rows, window, spec))


@dataclass(frozen=True)
class Served:
    """What was served in a window: ok requests, output tokens, and tokens that its energy and money are divided by."""

    requests: float
    output_tokens: float | None
    total_tokens: float | None


def served_in(rows: StageRows, window: Window, spec: RunSpec) -> Served:
    output, input_ = _tokens_in(rows, window, spec)
    return Served(float(rows.served_in(window).sum()), output, _total(output, input_, spec))


def _tokens_in(rows: StageRows, window: Window, spec: RunSpec) -> tuple[float | None, float | None]:
    """(output, input) tokens of the window; None unless every answer came with its count."""
    generates = form(spec.target.dialect).generates
    output = rows.output_tokens_in(window) if generates and rows.all_known("output_tokens") else None
    return output, rows.input_tokens_in(window) if rows.all_known("input_tokens") else None


def _total(output: float | None, input_: float | None, spec: RunSpec) -> float | None:
    """Input and output together; where nothing is generated the input is all."""
    if input_ is None or not form(spec.target.dialect).generates:
        return input_
    return None if output is None else output + input_


def _latencies(rows: StageRows, spec: RunSpec) -> dict[str, Any]:
    tpot_ms, _ = rows.tpot_ms
    gaps = rows.gaps
    observable = gaps.same_read_share is not None and gaps.same_read_share <= SAME_READ_LIMIT
    connect_ns = rows.ints("connect_ns")[rows.good]
    return {
        "ttft_ms": distribution(rows.between_ms("sent_ns", "first_token_ns")[0]),
        "ttft_from_schedule_ms": distribution(rows.between_ms("due_ns", "first_token_ns")[0]),
        "tpot_ms": distribution(tpot_ms),
        "first_answer_ms": distribution(rows.between_ms("sent_ns", "first_answer_ns")[0]),
        "task_ms": distribution(rows.tasks.ms) if isinstance(spec.workload.source, Agents) else None,
        "itl_ms": distribution(gaps.token_ms, clusters=gaps.token_clusters) if observable else None,
        "event_gap_ms": distribution(gaps.event_ms, clusters=gaps.event_clusters) if observable else None,
        "e2e_ms": distribution(rows.between_ms("sent_ns", "last_token_ns")[0]),
        "interactivity_tokens_per_s": distribution(1e3 / tpot_ms[tpot_ms > 0]),
        "input_tokens": distribution(_known(rows, "input_tokens")),
        "output_tokens": distribution(_known(rows, "output_tokens")),
        "reasoning_tokens": distribution(_known(rows, "reasoning_tokens")),
        "connect_ms": distribution(connect_ns[connect_ns != MISSING] / 1e6),
        "lag_ms": distribution(rows.between_ms("due_ns", "sent_ns", within=rows.measured)[0]),
    }


def _known(rows: StageRows, name: str) -> Floats:
    values = rows.ints(name)[rows.good]
    return np.asarray(values[values != MISSING], dtype=np.float64)


def _rates(rows: StageRows, window: Window, spec: RunSpec, counts: dict[str, int]) -> dict[str, Any]:
    seconds = window.seconds
    served = rows.served_in(window)
    n = int((served > 0).sum())
    output, input_ = _tokens_in(rows, window, spec)
    result = {
        "request_per_s": rate(float(served.sum()) / seconds, n),
        "output_tokens_per_s": rate(_per(output, seconds), n),
        "input_tokens_per_s": rate(_per(input_, seconds), n),
        "total_tokens_per_s": rate(_per(_total(output, input_, spec), seconds), n),
        "achieved_concurrency": rate(rows.concurrency_in(window), n),
    }
    if spec.slo.bounds() and counts["planned"]:
        met = meets_slo(rows, spec.slo.bounds())
        result["goodput_per_s"] = rate(float((served * met).sum()) / seconds, n)
    return result


def _per(amount: float | None, seconds: float) -> float | None:
    return None if amount is None else amount / seconds


def _shares(rows: StageRows, spec: RunSpec, counts: dict[str, int]) -> dict[str, Any]:
    """Of the planned requests: known even where not one was sent."""
    planned = counts["planned"]
    if not planned:
        return {}
    cached = cache_use(rows, None).cached_share
    result = {
        "success_share": rate(100 * counts["ok"] / planned, planned),
        "cached_share": None if cached is None else rate(100 * cached, counts["ok"]),
    }
    if spec.slo.bounds():
        met = int((rows.good & meets_slo(rows, spec.slo.bounds())).sum())
        result["goodput_share"] = rate(100 * met / planned, planned)
    return result


def meets_slo(rows: StageRows, bounds: Mapping[str, float]) -> Bools:
    """Row by row: every bound that is set holds. A request without the measure does not meet a bound on it."""
    met = rows.ok.copy()
    for name, bound in bounds.items():
        values = np.full(len(met), np.inf)
        if name == "tpot_ms":
            ms, at = rows.tpot_ms
            one_token = rows.ok & (rows.ints("output_tokens") == 1)
            values[one_token] = 0.0
        else:
            ms, at = rows.between_ms(
                "sent_ns", "first_token_ns" if name == "ttft_ms" else "last_token_ns", within=rows.ok
            )
        values[at] = ms
        met &= values <= bound
    return met


def _money(spec: RunSpec, window: Window, served: Served) -> dict[str, Any]:
    """A price with a source is taken as it is; one without is assumed."""
    if spec.account.usd_per_hour is None:
        return {}
    usd = spec.account.usd_per_hour * window.seconds / 3_600
    mark, n = Mark.MEASURED if spec.account.price_source else Mark.ASSUMED, round(served.requests)
    output, total = served.output_tokens, served.total_tokens
    return {
        "usd_per_mtok_output": rate(usd / output * 1e6, n, mark=mark) if output else None,
        "usd_per_mtok_total": rate(usd / total * 1e6, n, mark=mark) if total else None,
        "usd_per_query": rate(usd / served.requests, n, mark=mark) if served.requests else None,
    }


def _cost(spec: RunSpec) -> dict[str, Any] | None:
    account = spec.account
    if account.usd_per_hour is None:
        return None
    return {"usd_per_hour": account.usd_per_hour, "basis": "rent", "source": account.price_source or "assumed"}
