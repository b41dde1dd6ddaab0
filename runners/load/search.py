"""Searches: each stage decides the load of the next one."""

from math import sqrt
from typing import Any

from runners.load.plan import Course, Fixed, StagePlan, load_kind, stage_at
from runners.load.statistics import share_low
from runners.loads import long_name
from runners.spec import Arrivals, Goal, RunSpec, Search

#: The names under which a summary keeps what a search found.
FINDINGS = ("max_load_under_slo", "saturation")

_STEP = 2.0
_GAIN = 0.05
_RISE = 0.1
#: A queue is one from so many requests on.
_LEAST_QUEUED = 1.0
_EVIDENCE = {
    "queue": "the server's queue grew from {before:.1f} to {after:.1f} requests",
    "ttft_ms": "TTFT rose from {before:.3g} to {after:.3g} ms",
    "throughput": "two more steps gained nothing",
    "failures": "requests fail at the next load",
}


def course_of(spec: RunSpec) -> Course:
    if spec.load.search is None:
        return Fixed(spec)
    return (SloSearch if spec.load.search.goal is Goal.SLO else SaturationSearch)(spec, spec.load.search)


class _Search:
    """What both have in common: levels from a start to a most, and a budget of stages. A stage that the load generator
    limited is run once more, for a hiccup of this machine is no limit; the second time it is one.
    """

    def __init__(self, spec: RunSpec, search: Search) -> None:
        load = spec.load
        self.total = search.max_stages
        self._spec, self._search = spec, search
        self._whole = load.arrivals is Arrivals.CLOSED
        bound = float(load.max_in_flight) if self._whole else float("inf")
        self._most = load.levels[1] if len(load.levels) == 2 else bound
        self._kind = load_kind(load.arrivals)
        self._count = 0
        self._stages: list[dict[str, Any]] = []  # those that count
        self._again: float | None = None
        self._limited_by = ""

    def add(self, stage: dict[str, Any]) -> None:
        self._count += 1
        limited, again = stage["verdict"] == "client_limited", self._again
        self._again = stage["load"]["value"] if limited and again is None else None
        if self._again is not None:
            return
        self._stages.append(stage)
        if limited:
            self._limited_by = "client"
        self._judge(stage)

    def next(self) -> StagePlan | None:
        if self._count >= self.total:
            return None
        level = self._again
        if level is None:
            level = self._next_level() if self._stages else self._spec.load.levels[0]
        return None if level is None else self._plan(level)

    def _judge(self, stage: dict[str, Any]) -> None:
        """Takes in the stage that was run last."""

    def _next_level(self) -> float | None:
        raise NotImplementedError

    def _plan(self, level: float) -> StagePlan:
        return stage_at(self._spec, self._count, level)

    def _up(self, level: float) -> float:
        return min(level * _STEP, self._most)


class SloSearch(_Search):
    """Doubles the load until the SLO fails, halves the bracket until it is narrow, then confirms the load that passed
    in a stage of its own: the lower bound on the share within the SLO must reach what was asked for, else the next
    lower load is tried.
    """

    def __init__(self, spec: RunSpec, search: Search) -> None:
        super().__init__(spec, search)
        self._passed: dict[float, float] = {}  # level -> share
        self._failed: float | None = None  # the lowest that did
        self._doubtful: float | None = None  # the lowest that passed, but not its confirmation
        self._confirming = False
        self._confirmed: dict[str, Any] | None = None
        self._too_few = False

    def _judge(self, stage: dict[str, Any]) -> None:
        level, n = stage["load"]["value"], stage["planned"]
        met = round(stage["metrics"]["goodput_share"]["mean"] / 100 * n) if n else 0
        share = met / n if n else 0.0
        if self._limited_by and not self._confirming:
            return
        if self._confirming:
            self._judge_confirmation(level, met, n)
        elif share >= self._search.share:
            self._passed[level] = share
        else:
            self._fail(level)

    def _judge_confirmation(self, level: float, met: int, n: int) -> None:
        bound = share_low(met, n) if n else 0.0
        if bound >= self._search.share:
            self._confirmed = {"value": level, "share": met / n, "share_low": bound, "n": n}
        elif n < self._search.least_requests:
            self._too_few = True
        elif met / n < self._search.share:
            self._fail(level)
        else:
            self._doubtful = min(level, self._doubtful or level)
            self._passed = {lower: share for lower, share in self._passed.items() if lower < level}

    def _fail(self, level: float) -> None:
        self._failed = min(level, self._failed or level)
        self._passed = {lower: share for lower, share in self._passed.items() if lower < level}

    def next(self) -> StagePlan | None:
        if self._confirmed or self._too_few:
            return None
        return super().next()

    def _next_level(self) -> float | None:
        self._confirming = False
        passed = max(self._passed, default=None)
        ceiling = min((one for one in (self._failed, self._doubtful) if one is not None), default=None)
        if passed is None:
            return self._down(ceiling)
        if self._limited_by or passed >= self._most or (ceiling is not None and self._narrow(passed, ceiling)):
            self._confirming = True
            return passed
        if ceiling is None:
            return self._up(passed)
        return float(round((passed + ceiling) / 2)) if self._whole else sqrt(passed * ceiling)

    def _narrow(self, passed: float, failed: float) -> bool:
        return failed <= passed * (1 + self._search.tolerance) or (self._whole and failed - passed <= 1)

    def _down(self, failed: float | None) -> float | None:
        if failed is None or self._limited_by or (self._whole and failed <= 1):
            return None
        return float(int(failed / _STEP)) if self._whole else failed / _STEP

    def _plan(self, level: float) -> StagePlan:
        requests = self._spec.load.requests
        if not self._confirming or requests is None:
            return stage_at(self._spec, self._count, level)
        return stage_at(self._spec, self._count, level, max(requests, self._search.confirm_requests))

    def findings(self) -> dict[str, Any]:
        """{"max_load_under_slo": {kind, value, low, high, confirmed, share, share_low, n, limited_by, text}}: the SLO
        holds at ``low`` with 95 % confidence and failed at ``high``.
        """
        if not self._stages:
            return {"max_load_under_slo": None}
        passed = max(self._passed, default=None)
        best = self._confirmed or {
            "value": passed,
            "share": self._passed.get(passed or 0),
            "share_low": None,
            "n": None,
        }
        limit = self._limited_by or ("most" if best["value"] is not None and best["value"] >= self._most else "")
        found = {
            "kind": self._kind,
            **best,
            "low": self._confirmed["value"] if self._confirmed else None,
            "high": self._failed,
            "confirmed": self._confirmed is not None,
            "limited_by": limit or None,
        }
        return {"max_load_under_slo": found | {"text": self._words(found)}}

    def _words(self, found: dict[str, Any]) -> str:
        asked = f"{self._search.share:.0%} of the requests within the SLO"
        if found["value"] is None:
            failed = "" if found["high"] is None else f": {long_name(self._kind, found['high'])} is too much already"
            return f"no load was found with {asked}{failed}"
        words = [f"highest load with {asked}: {long_name(self._kind, found['value'])}"]
        if found["confirmed"]:
            words.append(f"confirmed: at least {found['share_low']:.1%} (95 % confidence, n = {found['n']})")
        elif self._too_few:
            words.append(f"not confirmed: that takes {self._search.least_requests} requests a stage or more")
        else:
            words.append("not confirmed: the stages, or the time, were used up first")
        if found["high"] is not None:
            words.append(f"{long_name(self._kind, found['high'])} fails")
        if found["limited_by"] == "client":
            words.append("the load generator can send no more than this")
        elif found["limited_by"] == "most":
            words.append("more was not to be tried")
        return "; ".join(words)


class SaturationSearch(_Search):
    """Doubles the load until throughput has stopped rising while requests wait ever longer: in the server's own queue,
    where that is told, or by their TTFT.
    """

    def _next_level(self) -> float | None:
        level = self._stages[-1]["load"]["value"]
        return None if self._limited_by or self._evidence() or level >= self._most else self._up(level)

    def _evidence(self) -> list[dict[str, Any]]:
        """What shows that the last load is too much; nothing while throughput rises, or nothing else does."""
        if len(self._stages) < 2:
            return []
        before, after = self._stages[-2:]
        if after["verdict"] == "failed":
            return [{"of": "failures", "before": before.get("failed"), "after": after.get("failed")}]
        if self._gained(-1):
            return []
        found = [_rise("queue", _queued(before), _queued(after), _LEAST_QUEUED)]
        found.append(_rise("ttft_ms", _ttft_ms(before), _ttft_ms(after)))
        if len(self._stages) > 2 and not self._gained(-2):
            values = {"before": _throughput(self._stages[-3]), "after": _throughput(after)}
            found.append({"of": "throughput", **values})
        return [item for item in found if item]

    def _gained(self, position: int) -> bool:
        before, after = self._stages[position - 1], self._stages[position]
        return after["verdict"] != "failed" and _throughput(after) > (1 + _GAIN) * _throughput(before)

    def findings(self) -> dict[str, Any]:
        """{"saturation": {kind, value, low, high, found, evidence, queue_known, throughput, metric, limited_by, text}}:
        throughput rose from ``low`` to ``value`` and no longer to ``high``.
        """
        if not self._stages:
            return {"saturation": None}
        evidence = self._evidence()
        gaining = [i for i in range(len(self._stages)) if i == 0 or self._gained(i)]
        best = self._stages[gaining[-1]]
        before = self._stages[gaining[-1] - 1]["load"]["value"] if gaining[-1] else None
        after = self._stages[gaining[-1] + 1]["load"]["value"] if evidence else None
        key = _throughput_key(best)
        found = {
            "kind": self._kind,
            "value": best["load"]["value"],
            "low": before,
            "high": after,
            "found": bool(evidence),
            "evidence": evidence,
            "queue_known": all(_queued(stage) is not None for stage in self._stages[-2:]),
            "throughput": _throughput(best) if key else None,
            "metric": key,
            "limited_by": self._limited_by or None,
        }
        return {"saturation": found | {"text": self._words(found)}}

    def _words(self, found: dict[str, Any]) -> str:
        name = long_name(self._kind, found["value"])
        if not found["found"]:
            return f"not saturated up to {name}"
        said = [_EVIDENCE[item["of"]].format(**item) for item in found["evidence"]]
        if not found["queue_known"]:
            said.append("the queue of the server is not known")
        elif all(item["of"] != "queue" for item in found["evidence"]):
            said.append("the server's queue did not grow")
        return f"throughput stops rising beyond {name}: {'; '.join(said)}"


def _rise(of: str, before: float | None, after: float | None, least: float = 0.0) -> dict[str, Any] | None:
    """None where it did not rise by enough, or is not known."""
    if before is None or after is None or after < least or after <= (1 + _RISE) * before:
        return None
    return {"of": of, "before": before, "after": after}


def _ttft_ms(stage: dict[str, Any]) -> float | None:
    return _mean(stage, "ttft_ms") if stage["metrics"].get("ttft_ms") else None


def _queued(stage: dict[str, Any]) -> float | None:
    """Mean number of requests that waited in the server, by its own gauge; None where it has none."""
    gauges = (stage.get("server") or {}).get("gauges", {})
    return float(gauges["requests_queued"]["mean"]) if "requests_queued" in gauges else None


def _mean(stage: dict[str, Any], key: str) -> float:
    metric = stage["metrics"].get(key)
    return float(metric["mean"]) if metric else 0.0


def _throughput_key(stage: dict[str, Any]) -> str:
    return next((key for key in ("output_tokens_per_s", "request_per_s") if key in stage["metrics"]), "")


def _throughput(stage: dict[str, Any]) -> float:
    return _mean(stage, _throughput_key(stage))
