"""The energy of a run from its rows and its power samples: when it ends, or whenever there are other samples.

The "power" account of a summary says which devices count. ``fault`` in it, {code, text}, says why the energy counts for
nothing although something was sampled: a part is never shown as the whole. ``client`` holds the devices of the load
generator's own machine where the server is on another one; they are in no ledger.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runners.load.energy_use import EnergyOf, add_medians
from runners.load.levels import by_level
from runners.load.outcomes import Outcome
from runners.load.rowfiles import Rows, as_rows
from runners.load.rows import StageRows, Window
from runners.load.statistics import rate
from runners.load.summary import served_in
from runners.metrics import Mark
from runners.power.energy import mean_power_w, window_ledger
from runners.power.idle import with_idle
from runners.power.placement import as_stated
from runners.power.windows import bounds_j, duty_cycle, window_energy
from runners.spec import RunSpec

#: The metrics that follow from power samples.
METRICS = ("power_w", "wh_per_query", "wh_per_query_median", "j_per_output_token", "j_per_total_token")

Power = dict[str, Any]
Ledger = dict[str, Any]


def add_energy(
    stages: Sequence[dict[str, Any]], rows: Rows | pa.Table, samples: pa.Table, power: Power, spec: RunSpec
) -> dict[str, Any]:
    """Gives each stage its ledgers and metrics of energy, in the place of those that it had. Returns what the summary
    says of the run as a whole: ``energy`` and ``attribution``.
    """
    ledger_of = partial(_ledger, samples, power, spec)
    for stage in stages:
        _add_to_stage(stage, StageRows(rows, stage["index"]), ledger_of, power, spec)
    usable = power["devices"] and not power.get("fault")
    attribution = add_medians(rows, stages, _energies(samples, power), power["idle_w"]) if usable else None
    for stage in stages:
        stage["client_energy"] = _client_energy(stage, samples, power)
    return {"energy": _of_run(as_rows(rows), ledger_of), "attribution": attribution}


def with_power(summary: dict[str, Any], rows: Rows | pa.Table, samples: pa.Table, power: Power) -> dict[str, Any]:
    """The summary of a run as it is with these power samples, whose stamps are on the run's clock."""
    spec = RunSpec.from_json(summary["spec"])
    power = with_idle(samples, as_stated(power, spec.power))
    stages = deepcopy(summary["stages"])
    facts = add_energy(stages, rows, samples, power, spec)
    return {**summary, "stages": stages, "levels": by_level(stages), "power": power, **facts}


def _ledger(samples: pa.Table, power: Power, spec: RunSpec, window: Window | None) -> Ledger | None:
    """None without devices; without totals where the account has a fault."""
    if not power["devices"] or window is None or window.seconds <= 0:
        return None
    account = spec.account
    ledger = window_ledger(
        samples,
        window.start_ns,
        window.end_ns,
        description=power,
        pue=account.pue,
        pue_source=account.pue_source,
        idle_w=power["idle_w"],
        idle_bounds_w=power.get("idle_bounds_w"),
        pue_bounds=account.pue_bounds,
    )
    fault = power.get("fault")
    if fault:
        layers = [layer for layer in ledger["layers"] if layer["layer"] != "overhead"]
        totals = dict.fromkeys(("narrow_j", "it_j", "full_j"))
        ledger |= {**totals, "layers": layers, "reasons": [fault, *ledger["reasons"]]}
    return ledger


def _add_to_stage(stage: dict[str, Any], rows: StageRows, ledger_of: Any, power: Power, spec: RunSpec) -> None:
    stage["metrics"] = {key: value for key, value in stage["metrics"].items() if key not in METRICS}
    stage |= dict.fromkeys(("energy", "energy_steady", "energy_whole", "energy_duty"))
    if stage["window"] is None:
        return
    window = Window(stage["window"]["kind"], stage["window"]["start_ns"], stage["window"]["end_ns"])
    ledger = stage["energy"] = ledger_of(window)
    if ledger is None:
        return
    served = served_in(rows, window, spec)
    stage["metrics"] |= _metrics(ledger, window, served.requests, served.output_tokens, served.total_tokens)
    whole = rows.whole
    if whole and (whole_ledger := ledger_of(whole)):
        stage["energy_whole"] = window_energy("stage", whole_ledger, float(rows.served_in(whole).sum()))
    stage["energy_steady"] = window_energy("steady", ledger, served.requests)
    stage["energy_duty"] = _duty(stage["energy_steady"], power, spec)


def _metrics(
    ledger: Ledger, window: Window, served: float, output: float | None, total: float | None
) -> dict[str, Any]:
    it_j = ledger["it_j"]
    if it_j is None:
        return {}
    low, high = bounds_j(ledger)

    def per(amount: float | None) -> dict[str, Any] | None:
        if not amount or amount <= 0:
            return None
        return rate(
            it_j / amount,
            round(served),
            low=None if low is None else low / amount,
            high=None if high is None else high / amount,
            mark=Mark(ledger["mark"]),
        )

    metrics = {
        "power_w": per(window.seconds),
        "wh_per_query": per(served * 3_600.0),
        "j_per_output_token": per(output),
        "j_per_total_token": per(total),
    }
    return {key: value for key, value in metrics.items() if value is not None}


def _duty(steady: dict[str, Any], power: Power, spec: RunSpec) -> dict[str, Any] | None:
    """At the traffic that was stated; None where none was."""
    if spec.account.queries_per_hour is None:
        return None
    duty = duty_cycle(steady, spec.account.queries_per_hour, power["idle_w"], power["idle_mark"])
    return {"reason": duty} if isinstance(duty, str) else {**asdict(duty), "reason": ""}


def _energies(samples: pa.Table, power: Power) -> EnergyOf:
    """Joules of all sampled devices between two moments."""

    def energy_of(start_ns: int, end_ns: int) -> float | None:
        mean_w = mean_power_w(samples, start_ns, end_ns, description=power)
        return None if mean_w is None else mean_w * (end_ns - start_ns) / 1e9

    return energy_of


def _client_energy(stage: dict[str, Any], samples: pa.Table, power: Power) -> dict[str, Any] | None:
    """What the load generator's machine took meanwhile (J); in no ledger and no metric."""
    client, window = power.get("client"), stage["window"]
    if not client or not client["devices"] or window is None:
        return None
    mean_w = mean_power_w(samples, window["start_ns"], window["end_ns"], description=client)
    if mean_w is None:
        return None
    return {"energy_j": mean_w * window["seconds"], "power_w": mean_w, "mark": client["mark"], "host": client["host"]}


def _of_run(rows: Rows, ledger_of: Any) -> dict[str, Any] | None:
    """From the first send to the last end of all stages, with the pauses between them and every request served."""
    firsts, lasts, served = list[int | None](), list[int | None](), 0
    for batch in rows.batches(["sent_ns", "end_ns", "outcome"]):
        firsts.append(pc.min(batch["sent_ns"]).as_py())
        lasts += [pc.max(batch["sent_ns"]).as_py(), pc.max(batch["end_ns"]).as_py()]
        served += pc.sum(pc.equal(batch["outcome"], str(Outcome.OK))).as_py() or 0
    known = [stamp for stamp in firsts if stamp is not None]
    if not known:
        return None
    ledger = ledger_of(Window("whole", min(known), max(stamp for stamp in lasts if stamp is not None)))
    return None if ledger is None else window_energy("run", ledger, float(served))
