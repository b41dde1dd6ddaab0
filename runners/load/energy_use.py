"""The work of a run in slices and by request, from its rows: what ``runners.power.attribution`` is fitted to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from runners.load.rowfiles import Rows
from runners.load.rows import MISSING, StageRows, Window
from runners.load.statistics import Bools, Floats, Ints, rate
from runners.metrics import Mark
from runners.power.attribution import Fit, Term, Work, attribute, attributed_median, fit

#: A slice is at least so long, that the meter has an exact figure for it.
SLICE_S = 2.5
MOST_SLICES = 24

#: Joules of all sampled devices in a window (ns), None when there is no number.
EnergyOf = Callable[[int, int], float | None]


def slices(window: Window) -> list[tuple[int, int]]:
    """Equal parts of a window."""
    count = min(MOST_SLICES, int(window.seconds / SLICE_S))
    edges = np.linspace(window.start_ns, window.end_ns, count + 1).astype(np.int64)
    return [(int(start), int(end)) for start, end in pairwise(edges)]


def work_in(rows: StageRows, start_ns: int, end_ns: int) -> Work:
    """What each row of the stage did between two moments.

    Time is shared: each moment is divided among the requests in flight.
    """
    decode, reads = np.zeros(len(rows)), np.zeros(len(rows))
    for at, stamps, tokens, read in _decoded(rows):
        held = (stamps >= start_ns) & (stamps < end_ns)
        np.add.at(decode, at[held], tokens[held])
        np.add.at(reads, at[held], read[held])
    seconds = _shared_seconds(rows.sent_ns, rows.end_ns, rows.sent_ns != MISSING, start_ns, end_ns)
    return Work(seconds, _prefill(rows, start_ns, end_ns), decode, reads)


def _prefill(rows: StageRows, start_ns: int, end_ns: int) -> Floats:
    """Prompts are taken to be worked on evenly from sending to the first token; cached prompt tokens take no work."""
    sent, first = rows.sent_ns, rows.ints("first_token_ns")
    prompt = np.maximum(rows.ints("input_tokens"), 0) - np.maximum(rows.ints("cached_tokens"), 0)
    inside = _overlap(sent, first, start_ns, end_ns) / np.maximum(first - sent, 1)
    answered = (sent != MISSING) & (first != MISSING)
    return np.asarray(np.where(answered, np.maximum(prompt, 0) * inside, 0.0), dtype=np.float64)


def _decoded(rows: StageRows) -> Iterator[tuple[Ints, Ints, Floats, Floats]]:
    """Of token events, some requests at a time: row, stamp, tokens, and context read for them (millions of tokens)."""
    prompts = np.maximum(rows.ints("input_tokens"), 0)
    for events in rows.events():
        at, tokens = events.rows, events.tokens
        context = prompts[at] + _tokens_before(at, tokens)
        yield at, events.stamps, tokens, tokens * context / 1e6


def _work_of_slices(rows: StageRows, parts: Sequence[tuple[int, int]]) -> Iterator[tuple[float, float, float]]:
    """Prefill, decode and KV reads of each of the slices, which follow each other."""
    edges = np.array([parts[0][0], *(end for _, end in parts)])
    decode, reads = np.zeros(len(parts) + 2), np.zeros(len(parts) + 2)  # with what was before and after
    for _, stamps, tokens, read in _decoded(rows):
        part = np.searchsorted(edges, stamps, side="right")
        decode += np.bincount(part, weights=tokens, minlength=len(decode))
        reads += np.bincount(part, weights=read, minlength=len(reads))
    for number, (start, end) in enumerate(parts, start=1):
        yield float(_prefill(rows, start, end).sum()), float(decode[number]), float(reads[number])


def _overlap(start: Ints, end: Ints, start_ns: int, end_ns: int) -> Floats:
    both_ns = np.minimum(end, end_ns) - np.maximum(start, start_ns)
    return np.asarray(np.maximum(both_ns, 0), dtype=np.float64)


def _tokens_before(at: Ints, tokens: Floats) -> Floats:
    """Tokens that the request of each event had before it; the events of a request stand together."""
    if not len(at):
        return np.zeros(0)
    running = np.cumsum(tokens) - tokens
    begins = np.concatenate(([True], at[1:] != at[:-1]))
    return np.asarray(running - np.maximum.accumulate(np.where(begins, running, 0.0)), dtype=np.float64)


def _shared_seconds(sent: Ints, end: Ints, was_sent: Bools, start_ns: int, end_ns: int) -> Floats:
    """Each row's part of the time between: a moment is divided equally among the requests in flight."""
    begin, stop = np.clip(sent, start_ns, end_ns), np.clip(end, start_ns, end_ns)
    edges = np.unique(np.concatenate((begin[was_sent], stop[was_sent], [start_ns, end_ns])))
    steps = np.zeros(len(edges))
    np.add.at(steps, np.searchsorted(edges, begin[was_sent]), 1)
    np.add.at(steps, np.searchsorted(edges, stop[was_sent]), -1)
    flying = np.cumsum(steps)[:-1]
    each_s = np.where(flying > 0, np.diff(edges) / 1e9 / np.maximum(flying, 1), 0.0)
    upto = np.concatenate(([0.0], np.cumsum(each_s)))
    part = upto[np.searchsorted(edges, stop)] - upto[np.searchsorted(edges, begin)]
    return np.asarray(np.where(was_sent, part, 0.0), dtype=np.float64)


def fit_run(stages: Iterable[tuple[StageRows, Window]], energy_of: EnergyOf, idle_w: float | None) -> Fit | None:
    """The fit over the slices of all stages; None when there are too few with a number."""
    found: list[tuple[float, float, float, float, float]] = []
    for rows, window in stages:
        parts = slices(window)
        energies_j = [energy_of(start, end) for start, end in parts]
        if not any(energy_j is not None for energy_j in energies_j):
            continue
        for (start, end), energy_j, work in zip(parts, energies_j, _work_of_slices(rows, parts), strict=True):
            if energy_j is not None:
                found.append((energy_j, (end - start) / 1e9, *work))
    if not found:
        return None
    energies, seconds, prefill, decode, kv_reads = (np.array(column) for column in zip(*found, strict=True))
    return fit(energies, Work(seconds, prefill, decode, kv_reads), idle_w)


def request_energy(rows: StageRows, window: Window, found: Fit, energy_j: float) -> Floats:
    """Joules of each row of the stage within the window; together exactly ``energy_j``."""
    return attribute(found, energy_j, work_in(rows, window.start_ns, window.end_ns))


def add_medians(
    every: Rows | pa.Table, stages: Sequence[dict[str, Any]], energy_of: EnergyOf, idle_w: float | None
) -> dict[str, Any] | None:
    """Gives each stage that has energy its ``wh_per_query_median``, by one fit over all of them, and returns the fit.

    None when the run is too short to tell how much its tokens took.
    """
    known = [stage for stage in stages if stage["window"] and stage["energy"] and stage["energy"]["it_j"] is not None]
    found = fit_run(((StageRows(every, stage["index"]), _window(stage)) for stage in known), energy_of, idle_w)
    if found is None:
        return None
    for stage in known:
        rows = StageRows(every, stage["index"])
        median = median_metric(rows, _window(stage), found, stage["energy"]["it_j"])
        if median is not None:
            stage["metrics"]["wh_per_query_median"] = median
    return described(found)


def _window(stage: dict[str, Any]) -> Window:
    window = stage["window"]
    return Window(window["kind"], window["start_ns"], window["end_ns"])


def median_metric(rows: StageRows, window: Window, found: Fit, energy_j: float) -> dict[str, Any] | None:
    """Wh of the median good request that lies whole in the window. Modelled: only the total is measured."""
    whole = rows.good & (rows.sent_ns >= window.start_ns) & (rows.end_ns <= window.end_ns)
    if not whole.any():
        return None
    median = attributed_median(found, energy_j, work_in(rows, window.start_ns, window.end_ns), whole)
    wh = {name: joules / 3600 for name, joules in median.items()}
    return rate(wh["value"], int(whole.sum()), low=wh["low"], high=wh["high"], mark=Mark.MODELLED)


def described(found: Fit) -> dict[str, Any]:
    """The fit for the summary, ready for JSON."""
    return {
        "idle_w": found.idle_w,
        "idle_measured": found.idle_measured,
        "terms": [
            {"of": "+".join(term.names), "joules": term.joules, "low": term.low, "high": term.high}
            for term in found.terms
        ],
        "r_squared": found.r_squared,
        "slices": found.slices,
        "note": found.note,
    }


def requests_j(table: pa.Table, stage: dict[str, Any], attribution: dict[str, Any]) -> list[float | None]:
    """Joules of each row of a stage of a summary, by the summary's own fit; None where a request is not whole in the
    window, or the stage has no energy. Modelled: only the total is measured.
    """
    it_j = (stage["energy"] or {}).get("it_j")
    if stage["window"] is None or it_j is None:
        return [None] * table.num_rows
    rows, window = StageRows(table), _window(stage)
    joules = request_energy(rows, window, _fit_of(attribution), it_j)
    whole = (rows.sent_ns >= window.start_ns) & (rows.end_ns <= window.end_ns)
    return [float(value) if held else None for value, held in zip(joules, whole, strict=True)]


def _fit_of(told: dict[str, Any]) -> Fit:
    """What ``described`` was made of, without the fits behind its intervals."""
    terms = tuple(Term(tuple(t["of"].split("+")), t["joules"], t["low"], t["high"]) for t in told["terms"])
    known = {name: told[name] for name in ("idle_w", "idle_measured", "r_squared", "slices", "note")}
    return Fit(**known, terms=terms, resamples=np.zeros((0, len(terms) + 1)))
