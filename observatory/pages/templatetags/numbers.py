"""How numbers, times and states look everywhere.

``{% metric value "ttft_ms" mark n %}`` is the one way to show a number of the table of metrics;
``{% quantity value "W" %}`` shows any other number with a unit. Both give a ``<span class="number">``; a table cell
is right-aligned with ``class="number"`` too.
"""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from observatory.runs.models import Run
from observatory.studies.models import Trial
from runners.metrics import BY_KEY, PERCENTILE_MIN_N, Mark, display

register = template.Library()

#: Said of a number beside which no range is known.
NO_INTERVAL = "no interval"

_SIGNS = {Mark.MEASURED: "", Mark.MODELLED: "~", Mark.ASSUMED: "?"}


@register.simple_tag
def metric(
    value: float | Decimal | str | None,
    key: str,
    mark: str = Mark.MEASURED,
    n: int | None = None,
    reason: str = "",
    statistic: str = "",
    note: str = "",
) -> SafeString:
    """``value`` of the metric ``key``, in its base unit, with three significant digits and its unit.

    ``mark`` is measured, modelled ("~", italic) or assumed ("?"). ``n`` and ``note`` are told on hover, n in print too.
    A missing value is a dash; ``reason`` says why on hover and to screen readers, and with ``statistic`` (such as
    "p99") a sample that is too small for it is named as the reason.
    """
    if value in (None, ""):
        return missing(reason or _too_few(statistic, n))
    return quantity(value, BY_KEY[key].unit, mark, n, note)


@register.simple_tag
def quantity(
    value: float | Decimal | str | None, unit: str, mark: str = Mark.MEASURED, n: int | None = None, note: str = ""
) -> SafeString:
    """Any number with its unit, marked as ``metric`` does; times in "ms" move to the unit that keeps them readable."""
    if value is None or value == "":
        return missing("")
    count = isinstance(value, int) and abs(value) < 1000
    text, shown_unit = (str(value), unit) if count else display(float(value), unit)
    kind = Mark(mark)
    notes = [f"n = {n}"] if n is not None else []
    if kind is not Mark.MEASURED:
        notes.insert(0, str(kind))
    if note:
        notes.append(note)
    return format_html(
        '<span class="number {}"{}{}>{}{}{}{}</span>',
        kind,
        format_html(' title="{}"', ", ".join(notes)) if notes else "",
        format_html(' data-n="{}"', n) if n is not None else "",
        _SIGNS[kind],
        text,
        format_html('<span class="unit"> {}</span>', shown_unit) if shown_unit else "",
        "" if kind is Mark.MEASURED else format_html('<span class="sr"> ({})</span>', kind),
    )


@register.simple_tag
def missing(reason: str) -> SafeString:
    """A dash for a number that is not there, with the reason on hover and for screen readers."""
    return format_html(
        '<span class="number missing" title="{0}"><span aria-hidden="true">–</span><span class="sr">{0}</span></span>',
        reason or "not measured",
    )


def _too_few(statistic: str, n: int | None) -> str:
    least = PERCENTILE_MIN_N.get(statistic)
    if least is None or n is None or n >= least:
        return ""
    return f"too few samples for {statistic}: {n}, at least {least} are needed"


@register.filter
def unit_of(key: str) -> str:
    """The base unit of a metric."""
    return BY_KEY[key].unit


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds as people say them: "45 s", "3 min 20 s", "2 h 5 min"; a dash when unknown."""
    if seconds is None:
        return "–"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")


@register.simple_tag
def moment(time: datetime | None, absent: str = "–") -> SafeString:
    """A time: today's as "14:05", others as "12 Nov 14:05" (with the year when it is not this one); UTC on hover."""
    if time is None:
        return format_html('<span class="muted">{}</span>', absent)
    local, now = timezone.localtime(time), timezone.localtime()
    pattern = "%H:%M" if local.date() == now.date() else "%-d %b %H:%M" if local.year == now.year else "%-d %b %Y %H:%M"
    return format_html(
        '<time class="nowrap" datetime="{}" title="{}">{}</time>',
        time.isoformat(),
        f"{local:%Y-%m-%d %H:%M:%S %Z}",
        local.strftime(pattern),
    )


_STATUS = {
    "queued": ("", "queued"),
    "running": ("running", "running"),
    "failed": ("fail", "failed"),
    "cancelled": ("", "cancelled"),
    "lost": ("fail", "lost"),
}


@register.simple_tag
def status(state: str, valid: bool | None = None) -> SafeString:
    """A run's state as a sign and a word: a finished run is "valid" or "not valid"."""
    kind, word = _STATUS.get(state, ("ok", "valid") if valid else ("note", "not valid"))
    return format_html('<span class="badge {}">{}</span>', kind, word)


_TRIAL = {"running": "running", "failed": "fail", "finished": "ok"}


@register.simple_tag
def trial_status(trial: Trial) -> SafeString:
    """A trial's state as a sign and a word, with the verdict where it has one."""
    word = str((trial.result or {}).get("verdict", "")) if trial.status == Trial.Status.FINISHED else trial.status
    return format_html('<span class="badge {}">{}</span>', _TRIAL.get(trial.status, ""), word or trial.status)


@register.filter
def wall(time: datetime) -> str:
    """A time as the clock on the wall of its own zone shows it: "Monday 12 Nov 2026, 03:00 CET"."""
    return time.strftime("%A %-d %b %Y, %H:%M %Z")


@register.simple_tag
def progress_bar(run: Run) -> SafeString:
    """The bar of a running run, with its stage and the time left; nothing for others."""
    if run.status != Run.Status.RUNNING:
        return SafeString("")
    shown: dict[str, Any] = run.progress if isinstance(run.progress, dict) else {}
    fraction, eta_s, stage, stages = (shown.get(key) for key in ("fraction", "eta_s", "stage", "stages"))
    known = isinstance(fraction, int | float)
    left = f"{duration(eta_s)} left" if isinstance(eta_s, int | float) else "time left not known yet"
    where = f"stage {stage + 1} of {stages}, " if isinstance(stage, int) and isinstance(stages, int) else ""
    return format_html(
        '<progress max="1"{} aria-label="Progress of run {}"></progress><small class="muted nowrap">{}{}</small>',
        format_html(' value="{}"', f"{fraction:.3f}") if known else "",
        run.pk,
        where,
        left,
    )
