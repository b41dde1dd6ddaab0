"""From raw rows to the numbers of a stage and the verdict of a run. Pure: the same rows give the same summary."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from runners.load.calibrate import Calibration
from runners.load.flags import flag_reasons
from runners.load.outcomes import HELP, Outcome
from runners.load.rows import MISSING, Bools, StageRows, Window
from runners.load.shares import Share
from runners.load.statistics import Floats, distribution, rate, usual
from runners.metrics import BY_KEY, DEFINITIONS_VERSION, Mark
from runners.server.summary import reasons as server_reasons
from runners.spec import Arrivals, RunSpec

SUMMARY_VERSION = 1

Ledger = dict[str, Any]
LedgerOf = Callable[[Window], Ledger | None]
ServerOf = Callable[[StageRows, int, Window | None], dict[str, Any] | None]

_MAX_FAILURE_SHARE = 0.05
_INPUT_TOLERANCE = 0.02
_BUSY_LIMIT = 0.9
_BUSY_MIN_S = 1.0
_LAG_FLOOR_MS = 10.0
_LAG_SHARE_OF_TTFT = 0.1
_SAME_READ_LIMIT = 0.5
_ERROR_FLOOR_MS = 2.0
_TTFT_ERROR_SHARE = 0.1
_EVENT_ERROR_SHARE = 0.25


@dataclass(frozen=True)
class Client:
    """What the load generator saw of itself during a stage."""

    clock: str = "kernel"
    busy_share: float | None = None
    cpu_s: float | None = None
    read_delay_p99_ms: float | None = None
    replaced_stamps: int = 0
    capped: bool = False
    stop_reason: str = ""
    calibration: Calibration | None = None


def reason(code: str, text: str) -> dict[str, str]:
    return {"code": code, "text": text}


def summarise_stage(
    table: pa.Table,
    index: int,
    spec: RunSpec,
    *,
    client: Client | None = None,
    ledger_of: LedgerOf | None = None,
    server_of: ServerOf | None = None,
) -> dict[str, Any]:
    """One stage in the layout of docs/result-files.md, from the rows of ``table`` that belong to it."""
    level = spec.load.levels[index]
    closed = spec.load.arrivals is Arrivals.CLOSED
    rows = StageRows(table.filter(pa.compute.equal(table.column("stage"), index)))
    window = rows.window(Share.of(spec, level).part(int(level)) if closed else None)
    counts = _counts(rows)
    ledger = ledger_of(window) if ledger_of and window else None
    metrics = _metrics(rows, window, spec, counts, ledger)
    flags = _flags(rows)
    server = server_of(rows, index, window) if server_of else None
    reasons = _reasons(rows, window, spec, counts, metrics, client) + flag_reasons(flags, counts["ok"])
    reasons += server_reasons(server)
    return {
        "index": index,
        "load": {"kind": "concurrency" if closed else "rate", "value": level},
        "verdict": _verdict(counts, reasons, client),
        "reasons": reasons,
        **counts,
        "failures": _failures(rows),
        "flags": flags,
        "window": {**asdict(window), "seconds": window.seconds} if window else None,
        "metrics": {key: value for key, value in metrics.items() if value is not None},
        "energy": ledger,
        "cost": _cost(spec),
        "client": asdict(client) if client else None,
        "server": server,
    }


def summarise(
    table: pa.Table, spec: RunSpec, stages: list[dict[str, Any]] | None = None, **facts: Any
) -> dict[str, Any]:
    """The whole summary; ``facts`` are the run's own (environment, clock, times). Without ``stages`` they are made from
    the rows alone, which is how a run that was cut off gets its numbers.
    """
    if stages is None:
        present = sorted(set(table.column("stage").to_pylist()))
        stages = [summarise_stage(table, index, spec) for index in present]
    bad = [stage for stage in stages if stage["verdict"] != "ok"]
    reasons = list(facts.pop("reasons", []))
    for stage in bad:
        words = "; ".join(item["text"] for item in stage["reasons"]) or stage["verdict"]
        reasons.append(reason(f"stage_{stage['verdict']}", f"{_level_words(stage)}: {words}"))
    missing = len(spec.load.levels) - len(stages)
    if missing:
        reasons.append(reason("stages_not_started", f"{missing} of {len(spec.load.levels)} stages were not started"))
    return {
        "summary_version": SUMMARY_VERSION,
        "definitions_version": DEFINITIONS_VERSION,
        "valid": bool(stages) and not bad and not missing,
        "reasons": reasons,
        "spec": spec.to_json(),
        "stages": stages,
        **facts,
    }


def _level_words(stage: dict[str, Any]) -> str:
    load = stage["load"]
    return f"concurrency {load['value']:g}" if load["kind"] == "concurrency" else f"{load['value']:g} requests/s"


# counts


def _counts(rows: StageRows) -> dict[str, int]:
    outcomes = rows.outcome[rows.measured]
    planned = len(outcomes)
    ok = int((outcomes == str(Outcome.OK)).sum())
    cancelled = int((outcomes == str(Outcome.CANCELLED)).sum())
    not_sent = int((outcomes == str(Outcome.NOT_SENT)).sum())
    failed = planned - ok - cancelled - not_sent
    return {"planned": planned, "ok": ok, "failed": failed, "cancelled": cancelled, "not_sent": not_sent}


def _failures(rows: StageRows) -> dict[str, Any]:
    """Outcome -> how often, one example, and what to do; warm-up left out."""
    details = rows.table.column("detail").to_pylist()
    found: dict[str, Any] = {}
    for row in np.flatnonzero(rows.measured & ~rows.ok):
        name = str(rows.outcome[row])
        entry = found.setdefault(name, {"count": 0, "example": "", "help": HELP[Outcome(name)]})
        entry["count"] += 1
        entry["example"] = entry["example"] or details[row] or ""
    return found


def _flags(rows: StageRows) -> dict[str, int]:
    found: dict[str, int] = {}
    lists = rows.table.column("flags").to_pylist()
    retried = rows.table.column("retried").to_pylist()
    for row in np.flatnonzero(rows.good):
        for flag in [*(lists[row] or []), *(["retried"] if retried[row] else [])]:
            found[flag] = found.get(flag, 0) + 1
    return found


# metrics


def _metrics(
    rows: StageRows, window: Window | None, spec: RunSpec, counts: dict[str, int], ledger: Ledger | None
) -> dict[str, Any]:
    metrics = _latencies(rows)
    if window is None or window.seconds <= 0:
        return metrics
    metrics |= _rates(rows, window, spec, counts)
    served = float(rows.served_in(window).sum())
    output, total = _tokens_in(rows, window)
    metrics |= _energy(ledger, window, served, output, total)
    metrics |= _money(spec, window, served, output, total)
    return metrics


def _tokens_in(rows: StageRows, window: Window) -> tuple[float | None, float | None]:
    """(output, total) tokens of the window; None unless every answer came with its count."""
    output = rows.output_tokens_in(window) if _all_known(rows, "output_tokens") else None
    input_ = rows.input_tokens_in(window) if _all_known(rows, "input_tokens") else None
    return output, output + input_ if output is not None and input_ is not None else None


def _all_known(rows: StageRows, name: str) -> bool:
    counts = rows.ints(name)[rows.ok]
    return bool(len(counts)) and bool((counts != MISSING).all())


def _latencies(rows: StageRows) -> dict[str, Any]:
    ttft_ms, _ = rows.between_ms("sent_ns", "first_token_ns")
    scheduled_ms, _ = rows.between_ms("due_ns", "first_token_ns")
    e2e_ms, _ = rows.between_ms("sent_ns", "last_token_ns")
    lag_ms, _ = rows.between_ms("due_ns", "sent_ns", within=rows.measured)
    tpot_ms, _ = rows.tpot_ms
    gaps = rows.gaps
    observable = gaps.same_read_share is not None and gaps.same_read_share <= _SAME_READ_LIMIT
    connect_ns = rows.ints("connect_ns")[rows.good]
    return {
        "ttft_ms": distribution(ttft_ms),
        "ttft_from_schedule_ms": distribution(scheduled_ms),
        "tpot_ms": distribution(tpot_ms),
        "itl_ms": distribution(gaps.token_ms, clusters=gaps.token_clusters) if observable else None,
        "event_gap_ms": distribution(gaps.event_ms, clusters=gaps.event_clusters) if observable else None,
        "e2e_ms": distribution(e2e_ms),
        "interactivity_tokens_per_s": distribution(1e3 / tpot_ms[tpot_ms > 0]),
        "input_tokens": distribution(_known(rows, "input_tokens")),
        "output_tokens": distribution(_known(rows, "output_tokens")),
        "connect_ms": distribution(connect_ns[connect_ns != MISSING] / 1e6),
        "lag_ms": distribution(lag_ms),
    }


def _known(rows: StageRows, name: str) -> Floats:
    values = rows.ints(name)[rows.good]
    return np.asarray(values[values != MISSING], dtype=np.float64)


def _rates(rows: StageRows, window: Window, spec: RunSpec, counts: dict[str, int]) -> dict[str, Any]:
    seconds = window.seconds
    served = rows.served_in(window)
    n = int((served > 0).sum())
    output, total = _tokens_in(rows, window)
    planned = counts["planned"]
    result = {
        "request_per_s": rate(float(served.sum()) / seconds, n),
        "output_tokens_per_s": rate(_per(output, seconds), n),
        "input_tokens_per_s": rate(_per(None if total is None or output is None else total - output, seconds), n),
        "total_tokens_per_s": rate(_per(total, seconds), n),
        "success_share": rate(100 * counts["ok"] / planned, planned) if planned else None,
        "achieved_concurrency": rate(rows.concurrency_in(window), n),
    }
    if spec.slo.bounds() and planned:
        met = meets_slo(rows, spec.slo.bounds())
        result["goodput_per_s"] = rate(float((served * met).sum()) / seconds, n)
        result["goodput_share"] = rate(100 * float((rows.good & met).sum()) / planned, planned)
    return result


def _per(amount: float | None, seconds: float) -> float | None:
    return None if amount is None else amount / seconds


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


def _energy(
    ledger: Ledger | None, window: Window, served: float, output: float | None, total: float | None
) -> dict[str, Any]:
    it_j = ledger.get("it_j") if ledger else None
    if ledger is None or it_j is None:
        return {}
    layers = [layer for layer in ledger["layers"] if layer["layer"] in ("accelerator", "cpu", "dram")]
    lows, highs = [layer["low_j"] for layer in layers], [layer["high_j"] for layer in layers]
    low = sum(lows) if None not in lows else None
    high = sum(highs) if None not in highs else None
    mark = Mark(ledger["mark"])

    def per(amount: float | None) -> dict[str, Any] | None:
        if not amount or amount <= 0:
            return None
        return rate(
            it_j / amount,
            round(served),
            low=None if low is None else low / amount,
            high=None if high is None else high / amount,
            mark=mark,
        )

    return {
        "power_w": per(window.seconds),
        "wh_per_query": per(served * 3_600.0),
        "j_per_output_token": per(output),
        "j_per_total_token": per(total),
    }


def _money(spec: RunSpec, window: Window, served: float, output: float | None, total: float | None) -> dict[str, Any]:
    """A price with a source is taken as it is; one without is assumed."""
    if spec.account.usd_per_hour is None:
        return {}
    usd = spec.account.usd_per_hour * window.seconds / 3_600
    mark, n = Mark.MEASURED if spec.account.price_source else Mark.ASSUMED, round(served)
    return {
        "usd_per_mtok_output": rate(usd / output * 1e6, n, mark=mark) if output else None,
        "usd_per_mtok_total": rate(usd / total * 1e6, n, mark=mark) if total else None,
        "usd_per_query": rate(usd / served, n, mark=mark) if served else None,
    }


def _cost(spec: RunSpec) -> dict[str, Any] | None:
    account = spec.account
    if account.usd_per_hour is None:
        return None
    return {"usd_per_hour": account.usd_per_hour, "basis": "rent", "source": account.price_source or "assumed"}


# judgement


def _verdict(counts: dict[str, int], reasons: list[dict[str, str]], client: Client | None) -> str:
    codes = {item["code"] for item in reasons}
    if client and client.stop_reason in ("interrupted", "cancelled"):
        return "interrupted"
    if codes & {"no_success", "failures", "stopped"}:
        return "failed"
    if codes & {"client_busy", "client_lag", "client_capped", "client_saturated", "client_error"}:
        return "client_limited"
    return "ok"


def _reasons(
    rows: StageRows,
    window: Window | None,
    spec: RunSpec,
    counts: dict[str, int],
    metrics: dict[str, Any],
    client: Client | None,
) -> list[dict[str, str]]:
    reasons = _failure_reasons(rows, counts, client) + _client_reasons(rows, window, metrics, client)
    if counts["ok"] and not _all_known(rows, "output_tokens"):
        unknown = int((rows.ints("output_tokens")[rows.ok] == MISSING).sum())
        reasons.append(
            reason(
                "tokens_unknown",
                f"{unknown} of {int(rows.ok.sum())} answers came without a token count: rates, energy and cost per "
                "token are left out; give a tokenizer.json to have them counted",
            )
        )
    if window and window.kind == "whole" and counts["ok"]:
        reasons.append(
            reason(
                "window_whole",
                "too few requests for a steady window at this load: rates cover the whole stage, its start and end "
                "included; ask for more requests or a longer duration",
            )
        )
    input_tokens = metrics.get("input_tokens")
    asked = spec.workload.input_tokens
    if input_tokens and abs(input_tokens["mean"] - asked) > _INPUT_TOLERANCE * asked:
        reasons.append(
            reason(
                "input_length_off",
                f"prompts had {input_tokens['mean']:.0f} tokens by the server's count; {asked} were asked for",
            )
        )
    share = rows.gaps.same_read_share
    if share is not None and share > _SAME_READ_LIMIT:
        reasons.append(
            reason(
                "itl_not_observable",
                f"{share:.0%} of the token events came together with the one before: the server, or a proxy between, "
                "sends its stream in batches, so gaps between tokens cannot be observed",
            )
        )
    return reasons


def _failure_reasons(rows: StageRows, counts: dict[str, int], client: Client | None) -> list[dict[str, str]]:
    planned, failed = counts["planned"], counts["failed"]
    unended = (Outcome.CANCELLED, Outcome.NOT_SENT)
    by_class = ", ".join(f"{name} {entry['count']}" for name, entry in _failures(rows).items() if name not in unended)
    reasons = []
    if client and client.stop_reason and client.stop_reason not in ("interrupted", "cancelled"):
        words = HELP.get(Outcome(client.stop_reason), "") if client.stop_reason in set(Outcome) else ""
        reasons.append(reason("stopped", f"the stage was stopped: {client.stop_reason}. {words}".strip()))
    if not planned:
        reasons.append(
            reason(
                "no_success",
                "no request was sent after the warm-up: its requests held every slot until the stage ended; ask for a "
                "duration longer than a request takes",
            )
        )
    elif not counts["ok"]:
        reasons.append(
            reason("no_success", f"not one of {planned} planned requests ended well ({by_class or 'none sent'})")
        )
    elif failed > _MAX_FAILURE_SHARE * planned:
        reasons.append(reason("failures", f"{failed} of {planned} requests failed ({by_class})"))
    elif failed:
        reasons.append(reason("some_failures", f"{failed} of {planned} requests failed ({by_class})"))
    return reasons


def _client_reasons(
    rows: StageRows, window: Window | None, metrics: dict[str, Any], client: Client | None
) -> list[dict[str, str]]:
    reasons: list[dict[str, str]] = []
    if client is None:
        return reasons
    if client.stop_reason == str(Outcome.CLIENT_SATURATED):
        reasons.append(reason("client_saturated", HELP[Outcome.CLIENT_SATURATED]))
    if client.capped:
        reasons.append(reason("client_capped", "max_in_flight was reached: requests waited at the client"))
    long_enough = window is not None and window.seconds >= _BUSY_MIN_S
    if long_enough and client.busy_share is not None and client.busy_share > _BUSY_LIMIT:
        reasons.append(reason("client_busy", f"the load generator was busy {client.busy_share:.0%} of the time"))
    reasons += _calibration_reasons(metrics, client.calibration)
    late, ttft = usual(_own_lag_ms(rows)), metrics.get("ttft_ms")
    if late and ttft and late.ms > max(_LAG_FLOOR_MS, _LAG_SHARE_OF_TTFT * ttft["mean"]):
        reasons.append(
            reason("client_lag", f"{late.share} of the requests were sent {late.ms:.1f} ms or more later than due")
        )
    return reasons


def _calibration_reasons(metrics: dict[str, Any], calibration: Calibration | None) -> list[dict[str, str]]:
    """Against the reference server at the same load the client erred by more than what was measured allows."""
    if calibration is None:
        return []
    reasons = []
    for key, error, share in (
        ("ttft_ms", calibration.ttft_error_ms, _TTFT_ERROR_SHARE),
        ("tpot_ms", calibration.event_error_ms, _EVENT_ERROR_SHARE),
    ):
        found, measured = usual(error), metrics.get(key)
        if found and measured and found.ms > max(_ERROR_FLOOR_MS, share * measured["mean"]):
            words = (
                f"in the calibration before the run {found.share} of the stamps were {found.ms:.1f} ms late or more, "
                f"beside a {BY_KEY[key].label} of {measured['mean']:.1f} ms: the load machine was busy with something "
                f"else. Free it or repeat; it can hold about {calibration.sustainable_events_per_s:.0f} events/s"
            )
            reasons.append(reason("client_error", words))
    return reasons


def _own_lag_ms(rows: StageRows) -> dict[str, Any] | None:
    """The lag that the client itself caused: the time to connect is the network's and not in it."""
    lag_ms, at = rows.between_ms("due_ns", "sent_ns", within=rows.measured)
    return distribution(lag_ms - np.maximum(rows.ints("connect_ns")[at], 0) / 1e6)
