"""What a stage's numbers may be used for: its verdict, and reasons that say what limits them and what to do."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from runners.load.calibrate import Calibration
from runners.load.dialects import form
from runners.load.lengthclasses import LengthClass
from runners.load.outcomes import HELP, Outcome
from runners.load.plan import StagePlan
from runners.load.prefixcache import CacheUse
from runners.load.rows import MISSING, StageRows, Window
from runners.load.statistics import distribution, usual
from runners.metrics import BY_KEY
from runners.sources import Agents
from runners.spec import Arrivals, RunSpec

#: Above this share of token events that came together with the one before, gaps cannot be observed.
SAME_READ_LIMIT = 0.5

_MAX_FAILURE_SHARE = 0.05
_BUSY_LIMIT = 0.9
#: A share below this one tells little of what is possible.
_LEAST_BUSY = 0.01
_BUSY_MIN_S = 1.0
_WAITED_LIMIT = 0.05
_LAG_FLOOR_MS = 10.0
_LAG_SHARE_OF_TTFT = 0.1
_ERROR_FLOOR_MS = 2.0
_TTFT_ERROR_SHARE = 0.1
_EVENT_ERROR_SHARE = 0.25
_HELD_SHARE = 0.95
_CUT_SHARE = 0.1
_BEYOND_CALIBRATION = 1.1
_STOP_HELP = {str(outcome): words for outcome, words in HELP.items()} | {
    "run_timeout": "The run's time limit was over: ask for less load, or give it more time."
}


@dataclass(frozen=True)
class Client:
    """What the load generator saw of itself during a stage."""

    clock: str = "kernel"
    busy_share: float | None = None
    cpu_s: float | None = None
    scheduled: str = "usual"
    waited_share: float | None = None
    read_delay_p99_ms: float | None = None
    replaced_stamps: int = 0
    capped: bool = False
    stop_reason: str = ""
    calibration: Calibration | None = None


@dataclass(frozen=True)
class Seen:
    """All that a stage is judged by."""

    rows: StageRows
    window: Window | None
    spec: RunSpec
    plan: StagePlan
    counts: dict[str, int]
    metrics: dict[str, Any]
    cache: CacheUse
    lengths: list[LengthClass]


def reason(code: str, text: str) -> dict[str, str]:
    return {"code": code, "text": text}


def failures(rows: StageRows) -> dict[str, Any]:
    """Outcome -> how often, one example, and what to do; warm-up left out."""
    return {
        name: {"count": count, "example": rows.remarks.examples[name], "help": HELP[Outcome(name)]}
        for name, count in rows.remarks.failures.items()
    }


def verdict(reasons: list[dict[str, str]], client: Client | None) -> str:
    codes = {item["code"] for item in reasons}
    if client and client.stop_reason in ("interrupted", "cancelled"):
        return "interrupted"
    if "client_saturated" not in codes and codes & {"no_success", "failures", "stopped"}:
        return "failed"
    if codes & {"client_busy", "client_lag", "client_capped", "client_saturated", "client_error"}:
        return "client_limited"
    return "ok"


def reasons_of(seen: Seen, client: Client | None) -> list[dict[str, str]]:
    held = _could_hold(seen, client)
    return [
        *_failure_reasons(seen.rows, seen.counts, client, held),
        *_client_reasons(seen, client, held),
        *_load_reasons(seen),
        *_token_reasons(seen.rows, seen.spec),
        *_prompt_reasons(seen),
        *_gap_reasons(seen.rows),
    ]


def _load_reasons(seen: Seen) -> list[dict[str, str]]:
    window, spec, reasons = seen.window, seen.spec, list[dict[str, str]]()
    if window is None or not seen.counts["ok"]:
        return reasons
    if spec.load.ramp_from is not None:
        words = f"the load rose from {spec.load.ramp_from:g} to {seen.plan.level:g}: means are over all of it"
        return [reason("ramp", f"{words}; the requests over time tell more")]
    if window.kind == "whole":
        words = (
            "too few requests for a steady window at this load: rates cover the whole stage, its start and end "
            "included; ask for more requests or a longer duration"
        )
        reasons.append(reason("window_whole", words))
    return reasons + _held_reasons(seen, window) + _task_reasons(seen)


def _held_reasons(seen: Seen, window: Window) -> list[dict[str, str]]:
    """A closed loop that did not keep its number in flight."""
    held, asked = seen.rows.concurrency_in(window), seen.plan.share.part(int(seen.plan.level))
    chained = bool((seen.rows.ints("chain") >= 0).any())
    steady = window.kind == "steady" and seen.spec.load.arrivals is Arrivals.CLOSED
    if chained or not steady or held >= _HELD_SHARE * asked:
        return []
    idle = seen.rows.idle_share(window)
    words = f"on average {held:.3g} of {asked:g} requests were in flight"
    return [reason("load_not_held", f"{words}; nothing was in flight for {idle:.1%} of the window")]


def _task_reasons(seen: Seen) -> list[dict[str, str]]:
    started, finished = seen.rows.tasks.started, len(seen.rows.tasks.ms)
    if not isinstance(seen.spec.workload.source, Agents) or started - finished <= _CUT_SHARE * started:
        return []
    words = (
        f"{started - finished} of {started} tasks were not finished in the stage, long ones more often than short: "
        "task latency is too low; ask for more requests or a longer duration"
    )
    return [reason("tasks_cut", words)]


def _token_reasons(rows: StageRows, spec: RunSpec) -> list[dict[str, str]]:
    generates = form(spec.target.dialect).generates
    if not generates or not rows.ok.any() or rows.all_known("output_tokens"):
        return []
    unknown, ok = int((rows.ints("output_tokens")[rows.ok] == MISSING).sum()), int(rows.ok.sum())
    words = (
        f"{unknown} of {ok} answers came without a token count: rates, energy and cost per token are left out; give a "
        "tokenizer.json or a GGUF model to have them counted"
    )
    return [reason("tokens_unknown", words)]


def _prompt_reasons(seen: Seen) -> list[dict[str, str]]:
    reasons = [
        reason(
            "input_length_off",
            f"prompts meant to have {one.asked:.0f} tokens had {one.counted:.0f} by the server's count (n = {one.n})",
        )
        for one in seen.lengths
        if one.off
    ]
    if seen.cache.clean is False:
        share = seen.cache.unexplained_share or 0.0
        words = (
            f"{share:.1%} of the prompt tokens came out of the server's cache although this workload does not repeat "
            "them: someone sent the same text before, so that TTFT is flattered. Restart the server, empty its cache, "
            "or use other prompts"
        )
        reasons.append(reason("cache_not_clean", words))
    return reasons


def _gap_reasons(rows: StageRows) -> list[dict[str, str]]:
    share = rows.gaps.same_read_share
    if share is None or share <= SAME_READ_LIMIT:
        return []
    words = (
        f"{share:.0%} of the token events came together with the one before: the server, or a proxy between, "
        "sends its stream in batches, so gaps between tokens cannot be observed"
    )
    return [reason("itl_not_observable", words)]


def _failure_reasons(rows: StageRows, counts: dict[str, int], client: Client | None, held: str) -> list[dict[str, str]]:
    planned, failed = counts["planned"], counts["failed"]
    unended = (Outcome.CANCELLED, Outcome.NOT_SENT)
    by_class = ", ".join(f"{name} {entry['count']}" for name, entry in failures(rows).items() if name not in unended)
    reasons = []
    if client and client.stop_reason and client.stop_reason not in ("interrupted", "cancelled"):
        words = _STOP_HELP.get(client.stop_reason, "")
        saturated = client.stop_reason == Outcome.CLIENT_SATURATED
        said = f"the stage was stopped: {client.stop_reason}. {words}".strip()
        reasons.append(reason(client.stop_reason, said + held) if saturated else reason("stopped", said))
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


def _client_reasons(seen: Seen, client: Client | None, held: str) -> list[dict[str, str]]:
    reasons: list[dict[str, str]] = []
    if client is None:
        return reasons
    rows, window, calibration = seen.rows, seen.window, client.calibration
    if client.capped:
        reasons.append(reason("client_capped", f"max_in_flight was reached: requests waited at the client{held}"))
    if window is not None and window.seconds >= _BUSY_MIN_S:
        reasons += _core_reasons(client, held)
    reasons += _calibration_reasons(seen.metrics, calibration, held) + _beyond_reasons(rows, window, calibration)
    late, ttft = usual(_own_lag_ms(rows)), seen.metrics.get("ttft_ms")
    if late and ttft and late.ms > max(_LAG_FLOOR_MS, _LAG_SHARE_OF_TTFT * ttft["mean"]):
        words = f"{late.share} of the requests were sent {late.ms:.1f} ms or more later than due{held}"
        reasons.append(reason("client_lag", words))
    return reasons


def _could_hold(seen: Seen, client: Client | None) -> str:
    """The end of a sentence on the client's limit: what it could have held with requests like these."""
    if client is None or not client.busy_share or seen.window is None or seen.window.seconds <= 0:
        return ""
    events_per_s = seen.rows.token_events_in(seen.window) / seen.window.seconds
    if not events_per_s:
        return ""
    most_per_s = events_per_s * _BUSY_LIMIT / max(client.busy_share, _LEAST_BUSY)
    return f"; with such requests it can hold about {most_per_s:.0f} events/s"


def _core_reasons(client: Client, held: str) -> list[dict[str, str]]:
    """The core of the load generator had too much to do, or did not get its turn."""
    reasons = []
    if client.busy_share is not None and client.busy_share > _BUSY_LIMIT:
        reasons.append(reason("client_busy", f"the load generator was busy {client.busy_share:.0%} of the time{held}"))
    if client.waited_share is not None and client.waited_share > _WAITED_LIMIT:
        words = (
            f"other programs of this host kept the load generator waiting for {client.waited_share:.0%} of the time: "
            "single stamps may be late by that. Free the host, or give the runner CAP_SYS_NICE so that it goes first"
        )
        reasons.append(reason("client_waited", words + held))
    return reasons


def _calibration_reasons(metrics: dict[str, Any], calibration: Calibration | None, held: str) -> list[dict[str, str]]:
    """Against the timing server at the same load the client erred by more than what was measured allows."""
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
                "else. Free it or repeat"
            )
            reasons.append(reason("client_error", words + held))
    return reasons


def _beyond_reasons(rows: StageRows, window: Window | None, calibration: Calibration | None) -> list[dict[str, str]]:
    """The calibration has gaps of its own, so that a fast endpoint brings more events than it at the same level."""
    if calibration is None or window is None or window.seconds <= 0:
        return []
    events_per_s = rows.token_events_in(window) / window.seconds
    if events_per_s <= _BEYOND_CALIBRATION * calibration.events_per_s:
        return []
    words = (
        f"{events_per_s:.0f} token events came in a second, and {calibration.events_per_s:.0f} in the calibration at "
        "this level: the client's own error at so many is not known. python -m runners calibrate measures it at a "
        "higher concurrency"
    )
    return [reason("calibration_below", words)]


def _own_lag_ms(rows: StageRows) -> dict[str, Any] | None:
    """The lag that the client itself caused: the time to connect is the network's and not in it."""
    lag_ms, at = rows.between_ms("due_ns", "sent_ns", within=rows.measured)
    return distribution(lag_ms - np.maximum(rows.ints("connect_ns")[at], 0) / 1e6)
