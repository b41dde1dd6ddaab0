"""What each table shows."""

from dataclasses import replace

import django_tables2 as tables
from django.db.models import F, QuerySet
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint, Site
from observatory.pages.benchmark_words import asks
from observatory.pages.listing import Listing, Moment, Number, Price
from observatory.pages.run_columns import Column, number
from observatory.pages.templatetags.numbers import (
    metric,
    missing,
    progress_bar,
    quantity,
    status,
    trial_status,
)
from observatory.runs.models import Run
from observatory.schedules.models import Occurrence, Schedule
from observatory.studies.models import Study, Trial
from runners.loads import KINDS, short_name


class EndpointTable(Listing):
    title = "Endpoints"
    name = tables.Column(linkify=True)
    url = tables.Column(verbose_name="URL")
    model = tables.Column()
    dialect = tables.Column()
    engine = tables.Column(empty_values=(), orderable=False)
    deployments = Number(accessor="deployment_count")
    probed_at = Moment(verbose_name="Probed")

    def render_url(self, value: str, record: Endpoint) -> SafeString:
        if record.recipe:
            return format_html('<span class="muted">{}</span>', "started for each run")
        return format_html("<code>{}</code>", value)

    def render_engine(self, record: Endpoint) -> SafeString:
        probe = record.probe or {}
        if record.recipe:
            return format_html("{}", record.recipe["engine"])
        if not probe:
            return missing("not probed yet")
        if not probe.get("usable"):
            return format_html('<span class="badge fail" title="{}">not usable</span>', probe.get("text", ""))
        return format_html("{} {}", probe.get("engine") or "usable", probe.get("engine_version", ""))


class DeploymentTable(Listing):
    title = "Deployments"
    name = tables.Column(linkify=True)
    endpoint = tables.Column(linkify=True)
    model = tables.Column(accessor="endpoint__model")
    engine = tables.Column()
    precision = tables.Column()
    hardware = tables.Column(order_by=("first_accelerator", "runs_on_cpu"))
    usd_per_hour = Price("$/h", verbose_name="Price")
    site = tables.Column()

    def render_engine(self, record: Deployment) -> str:
        return f"{record.engine} {record.engine_version}"


class HardwareTable(Listing):
    title = "Accelerators"
    name = tables.Column(linkify=("hardware-item", {"slug": tables.A("slug")}), attrs={"td": {"class": "nowrap"}})
    vendor = tables.Column()
    arch = tables.Column(verbose_name="Architecture")
    form_factor = tables.Column(verbose_name="Form")
    memory_gb = Number("GB", verbose_name="Memory")
    mem_bandwidth_gb_s = Number("GB/s", verbose_name="Bandwidth")
    bf16_dense_tflops = Number("TFLOPS", verbose_name="BF16")
    fp8_dense_tflops = Number("TFLOPS", verbose_name="FP8")
    int8_dense_tops = Number("TOPS", verbose_name="INT8")
    fp4_dense_tflops = Number("TFLOPS", verbose_name="FP4")
    tdp_w = Number("W", verbose_name="TDP")
    provisioned_kw = Number("kW", verbose_name="Provisioned")
    cheapest = Price("$/h", verbose_name="Price from")
    confidence = tables.Column()
    source = tables.Column(orderable=False, attrs={"td": {"class": "text muted small"}})

    def render_source(self, value: str) -> SafeString:
        return _clamped(value)


class SiteTable(Listing):
    title = "Sites"
    name = tables.Column()
    provider = tables.Column()
    region = tables.Column()
    pue = Number(verbose_name="PUE")
    wue_l_per_kwh = Number("l/kWh", verbose_name="WUE")
    electricity_usd_per_kwh = Number("$/kWh", verbose_name="Electricity")
    grid_g_per_kwh = Number("g CO₂e/kWh", verbose_name="Grid, location")
    grid_market_g_per_kwh = Number("g CO₂e/kWh", verbose_name="Grid, market")
    effective_from = tables.DateColumn(format="Y-m-d", verbose_name="From")
    source = tables.Column(orderable=False, attrs={"td": {"class": "text muted small"}})

    def render_source(self, record: Site) -> SafeString:
        return _clamped(". ".join(filter(None, (getattr(record, "note", ""), getattr(record, "source", "")))))


def _clamped(text: str) -> SafeString:
    """A long text in two lines; the whole of it on hover."""
    return format_html('<span class="clamp" title="{0}">{0}</span>', text)


class EditableSiteTable(SiteTable):
    name = tables.Column(linkify=("site-edit", {"pk": tables.A("pk")}))


class BenchmarkTable(Listing):
    title = "Benchmarks"
    name = tables.Column(linkify=True)
    deployment = tables.Column(linkify=True)
    asks = tables.Column(empty_values=(), orderable=False)
    runs = Number(accessor="run_count")
    last = tables.Column(accessor="last_status", verbose_name="Last run", orderable=False)

    def render_asks(self, record: Benchmark) -> str:
        return asks(record)

    def render_last(self, record: Benchmark) -> SafeString:
        return format_html(
            '<a href="{}">{}</a>',
            reverse("run", args=[getattr(record, "last_run", 0)]),
            status(getattr(record, "last_status", ""), getattr(record, "last_valid", None)),
        )


class ScheduleTable(Listing):
    title = "Schedules"
    cron = tables.Column(linkify=True, verbose_name="When")
    time_zone = tables.Column()
    subject = tables.Column(linkify=True, verbose_name="Starts", order_by=("benchmark__name", "study__name"))
    enabled = tables.Column()
    next_due_at = Moment(verbose_name="Next")

    def render_cron(self, value: str) -> SafeString:
        return format_html("<code>{}</code>", value)

    def render_enabled(self, record: Schedule) -> SafeString:
        kind, word = ("ok", "on") if record.enabled else ("", "off")
        return format_html('<span class="badge {}">{}</span>', kind, word)


class OccurrenceTable(Listing):
    title = "Past times"
    due_at = Moment(verbose_name="Due")
    outcome = tables.Column()
    run = tables.Column(linkify=True, default="")
    trial = tables.Column(linkify=True, default="")
    reason = tables.Column(orderable=False, default="", attrs={"td": {"class": "text muted"}})

    def render_outcome(self, record: Occurrence) -> SafeString:
        kind = {"started": "ok", "missed": "note"}.get(record.outcome, "")
        return format_html('<span class="badge {}">{}</span>', kind, record.outcome)


class StudyTable(Listing):
    title = "Studies"
    name = tables.Column(linkify=True)
    question = tables.Column(orderable=False, attrs={"td": {"class": "text"}})
    arms = tables.Column(empty_values=(), orderable=False)
    last = tables.Column(empty_values=(), orderable=False, verbose_name="Last trial", attrs={"cell": {"class": "fit"}})
    answer = tables.Column(empty_values=(), orderable=False, attrs={"td": {"class": "text"}})

    def render_arms(self, record: Study) -> str:
        return ", ".join(arm.name for arm in record.arms.all())

    def render_last(self, record: Study) -> SafeString:
        trial = next(iter(record.trials.all()), None)
        return trial_status(trial) if trial else missing("not carried out yet")

    def render_answer(self, record: Study) -> str:
        trial = next((trial for trial in record.trials.all() if trial.result), None)
        return str(trial.result["answer"]) if trial and trial.result else missing("not carried out yet")


class TrialTable(Listing):
    title = "Trials"
    pk = tables.Column(linkify=True, verbose_name="Trial", attrs={"cell": {"class": "fit"}})
    status = tables.Column()
    started_at = Moment(verbose_name="Started")
    trigger = tables.Column()
    answer = tables.Column(accessor="result__answer", orderable=False, attrs={"td": {"class": "text"}})

    def render_status(self, record: Trial) -> SafeString:
        return trial_status(record)


class MetricColumn(tables.Column):  # type: ignore[misc]
    """One statistic of one metric, of the run's peak stage."""

    def __init__(self, column: Column) -> None:
        super().__init__(
            verbose_name=column.label,
            accessor="pk",
            order_by=column.key,
            initial_sort_descending=column.metric.better == "higher",
            attrs={"th": {"class": "number", "title": column.metric.help}, "td": {"class": "number"}},
        )
        self.shown = column

    def order(self, queryset: QuerySet[Run], is_descending: bool) -> tuple[QuerySet[Run], bool]:
        """Runs without that number come last, either way."""
        value = F(self.shown.key)
        by = value.desc(nulls_last=True) if is_descending else value.asc(nulls_last=True)
        return queryset.order_by(by, "-pk"), True

    def render(self, record: Run) -> SafeString:
        found = number(record, self.shown)
        if found is not None:
            return metric(found.value, self.shown.metric.key, found.mark, found.n)
        if not record.ended:
            return missing("the run has not ended yet")
        mean = number(record, replace(self.shown, statistic="mean"))
        return metric(None, self.shown.metric.key, n=mean.n if mean else None, statistic=self.shown.statistic)


PICK = format_html('<span class="sr">{}</span>', "Pick")


class RunTable(Listing):
    title = "Runs"
    pick = tables.Column(empty_values=(), orderable=False, verbose_name=PICK, attrs={"cell": {"class": "fit"}})
    id = tables.Column(linkify=True, verbose_name="Run", initial_sort_descending=True, attrs={"cell": {"class": "fit"}})
    status = tables.Column(attrs={"cell": {"class": "fit"}})
    benchmark = tables.Column(linkify=True)
    deployment = tables.Column(linkify=True)
    started = Moment(accessor="queued_at", verbose_name="Queued", order_by="pk", initial_sort_descending=True)
    load = tables.Column(accessor="peak_value", verbose_name="At", attrs={"cell": {"class": "fit"}})

    def render_pick(self, record: Run) -> SafeString:
        return format_html(
            '<input type="checkbox" id="pick-{0}" name="run" value="{0}" form="compare" data-pick hx-preserve '
            'aria-label="Pick run {0}">',
            record.pk,
        )

    def render_status(self, record: Run) -> SafeString:
        return format_html("{}{}", status(record.status, record.valid), progress_bar(record))

    def render_load(self, record: Run) -> SafeString:
        kind, value = getattr(record, "peak_kind", ""), getattr(record, "peak_value", 0)
        limited = getattr(record, "peak_verdict", "ok") != "ok"
        text = (
            quantity(value, "req/s")
            if kind == "rate"
            else format_html("{}", short_name(kind, value) if kind in KINDS else "")
        )
        return format_html('{} <span class="warn" title="{}">!</span>', text, "not a clean stage") if limited else text
