"""When two stages must not be compared, and why; each reason says what to do."""

from enum import StrEnum

from observatory.compare.stages import StageResult

#: Mean lengths further apart than this are different work, whatever was asked for.
LENGTH_TOLERANCE = 0.05

ENERGY_METRICS = frozenset(
    {"power_w", "wh_per_query", "wh_per_query_median", "j_per_output_token", "j_per_total_token"}
)
COST_METRICS = frozenset({"usd_per_mtok_output", "usd_per_mtok_total", "usd_per_query"})
SLO_METRICS = frozenset({"goodput_per_s", "goodput_share"})
#: Of an evaluation beside the run: whatever load was sent, it stands.
QUALITY_METRICS = frozenset({"accuracy"})


class Part(StrEnum):
    """What a refusal covers."""

    ALL = "all"
    ENERGY = "energy"
    COST = "cost"
    GOODPUT = "goodput"


_METRICS = {Part.ENERGY: ENERGY_METRICS, Part.COST: COST_METRICS, Part.GOODPUT: SLO_METRICS}

Refusals = dict[Part, str]


def refusals(base: StageResult, other: StageResult, *, other_work: bool = False) -> Refusals:
    """Reasons by what they cover; empty when everything may be compared. ``other_work``: the two were given different
    work on purpose.
    """
    lengths = "" if other_work else _lengths(base, other)
    found = {
        Part.ALL: _unusable(base) or _unusable(other) or _definitions(base, other) or lengths,
        Part.ENERGY: _energy(base, other),
        Part.COST: _cost(base, other),
        Part.GOODPUT: _slo(base, other),
    }
    return {part: reason for part, reason in found.items() if reason}


def refusal_of(metric: str, found: Refusals) -> str:
    """The reason why this metric is not compared, or nothing."""
    if metric in QUALITY_METRICS:
        return ""
    if Part.ALL in found:
        return found[Part.ALL]
    return next((reason for part, reason in found.items() if metric in _METRICS[part]), "")


def _unusable(stage: StageResult) -> str:
    if stage.run_valid is not True:
        why = stage.run_reason or "it did not end well"
        return f"{stage.label} is not a valid run: {why.rstrip('.')}. Run it again."
    if stage.verdict == "client_limited":
        return (
            f"{stage.label} at {stage.load} was limited by the load machine, not by the server. "
            "Choose a lower level, or measure from a stronger machine."
        )
    if stage.verdict != "ok":
        return f"{stage.label} at {stage.load} did not end well ({stage.verdict}). Choose another level."
    return ""


def _definitions(base: StageResult, other: StageResult) -> str:
    if base.definitions_version == other.definitions_version:
        return ""
    return (
        f"The metrics of {base.label} follow definitions version {base.definitions_version}, those of {other.label} "
        f"version {other.definitions_version}. Run the older one again."
    )


def _lengths(base: StageResult, other: StageResult) -> str:
    if base.work != other.work:
        return (
            f"Different work: {base.label} sent {base.work} requests, {other.label} {other.work} ones. "
            "Give both benchmarks the same workload."
        )
    for name in ("input_tokens", "output_tokens"):
        words = name.replace("_", " ")
        asked = getattr(base, name), getattr(other, name)
        if asked[0] != asked[1]:
            return (
                f"Different work: {base.label} asked for {_count(asked[0])} {words} a request, {other.label} for "
                f"{_count(asked[1])}. Give both benchmarks the same lengths."
            )
        served = base.mean(name), other.mean(name)
        if served[0] and served[1] and abs(served[1] / served[0] - 1) > LENGTH_TOLERANCE:
            return (
                f"Different work: {base.label} had {served[0]:.0f} {words} a request on average, {other.label} "
                f"{served[1]:.0f}. Use a server that honours ignore_eos, or compare equal lengths."
            )
    return ""


def _energy(base: StageResult, other: StageResult) -> str:
    if base.energy_boundary is None or other.energy_boundary is None:
        return ""
    if base.energy_boundary != other.energy_boundary:
        return (
            f"Different energy boundaries: {base.label} counts {base.energy_boundary}, {other.label} "
            f"{other.energy_boundary}. Measure both with the same power source{_narrow(base, other)}."
        )
    if base.energy_shared != other.energy_shared:
        shared = base if base.energy_shared else other
        return (
            f"Different energy boundaries: the energy of {shared.label} is that of a whole board that serves others "
            "too. Measure it with the board to itself."
        )
    if base.energy_mark != other.energy_mark:
        return (
            f"The energy of {base.label} is {base.energy_mark}, that of {other.label} {other.energy_mark}. "
            "Measure both with the same power source."
        )
    return ""


def _narrow(base: StageResult, other: StageResult) -> str:
    """Where both hold accelerators, those have a figure each."""
    both = all("accelerator" in (stage.energy_boundary or "").split("+") for stage in (base, other))
    return ", or read the narrow figures on the two Energy tabs, which hold accelerators alone" if both else ""


def _cost(base: StageResult, other: StageResult) -> str:
    if base.price_basis is None or other.price_basis is None or base.price_basis == other.price_basis:
        return ""
    return (
        f"Different price basis: {base.label} is {base.price_basis}, {other.label} {other.price_basis}. "
        "Give both deployments a price of the same kind."
    )


def _slo(base: StageResult, other: StageResult) -> str:
    if dict(base.slo) == dict(other.slo):
        return ""
    return f"Goodput is against different bounds: {_bounds(base)} and {_bounds(other)}. Set the same SLO on both."


def _bounds(stage: StageResult) -> str:
    bounds = ", ".join(f"{key.removesuffix('_ms').upper()} {value:g} ms" for key, value in sorted(stage.slo.items()))
    return bounds or "none"


def _count(tokens: int | str | None) -> str:
    return "an unknown number of" if tokens is None else str(tokens)
