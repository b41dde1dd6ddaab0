"""Lists of quality results: on their own page, and the short ones on the pages of deployments and runs."""

import django_tables2 as tables
from django.db.models import QuerySet
from django.utils.safestring import SafeString

from observatory.pages.listing import Listing, Moment
from observatory.pages.quality_words import percent
from observatory.pages.templatetags.numbers import missing, status
from observatory.quality.models import QualityQuerySet, QualityResult
from observatory.runs.models import Run

LATEST = 10


class QualityTable(Listing):
    title = "Quality results"
    id = tables.Column(linkify=True, verbose_name="Result", attrs={"cell": {"class": "fit"}})
    state = tables.Column(accessor="job__status", empty_values=(), attrs={"cell": {"class": "fit"}})
    deployment = tables.Column(linkify=True)
    task_set = tables.Column()
    value = tables.Column(verbose_name="Accuracy", empty_values=())
    agreement = tables.Column(verbose_name="As the reference", empty_values=(), orderable=False)
    created_at = Moment(verbose_name="Asked", order_by="pk")

    def render_state(self, record: QualityResult) -> SafeString:
        return status(record.job.status, record.job.valid) if record.job else SafeString("uploaded")

    def render_value(self, record: QualityResult) -> SafeString:
        return percent(record.value, record.low, record.high, record.n) if record.value is not None else missing("none")

    def render_agreement(self, record: QualityResult) -> SafeString:
        alike = (record.agreement or {}).get("identical") or {}
        if alike.get("share") is None:
            return missing("not compared")
        return percent(alike["share"], alike["low"], alike["high"], alike["n"])


def stored() -> QualityQuerySet:
    return QualityResult.objects.all().select_related("deployment", "job")


def latest(results: QuerySet[QualityResult], exclude: tuple[str, ...] = ()) -> QualityTable:
    """The newest few, for the page of what they belong to."""
    return QualityTable(list(results[:LATEST]), orderable=False, exclude=exclude)


def beside(run: Run) -> QualityTable:
    """The results that stand beside a load run: its own, else the newest known ones of its deployment."""
    own = stored().filter(beside=run)
    return latest(own if own.exists() else stored().known().filter(deployment=run.deployment_id), ("deployment",))
