from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from runners.loads import long_name


class Run(models.Model):
    """One execution. The row is the truth: states move by compare-and-set, never by what a message says.

    queued -> running -> finished | failed | cancelled | lost, and queued -> cancelled.
    finished: the instrument ended by itself; ``valid`` says whether its numbers may be used.
    failed: nothing usable was measured. lost: the worker vanished; its partial rows are kept, nothing is sent again.
    """

    class Kind(models.TextChoices):
        LOAD = "load"
        QUALITY = "quality"

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"
        CANCELLED = "cancelled"
        LOST = "lost"

    class Trigger(models.TextChoices):
        PAGE = "page"
        API = "api"
        SCHEDULE = "schedule"
        DEMO = "demo"
        STUDY = "study"

    kind = models.CharField(max_length=20, choices=Kind, default=Kind.LOAD)
    benchmark = models.ForeignKey(
        Benchmark, null=True, blank=True, on_delete=models.PROTECT, related_name="runs", help_text="Of a load run"
    )
    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="runs")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="runs")
    accelerator_group = models.CharField(max_length=100, blank=True)
    status = models.CharField(max_length=20, choices=Status, default=Status.QUEUED)
    trigger = models.CharField(max_length=20, choices=Trigger)
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)

    spec = models.JSONField()
    spec_sha256 = models.CharField(max_length=64)
    setup = models.JSONField(default=dict, help_text="The deployment as it was when the run was queued")

    load_hosts = models.PositiveSmallIntegerField(default=1)
    gathering = models.BooleanField(default=False, help_text="It waits for its other load hosts to join")
    epoch = models.PositiveIntegerField(default=0)
    lease_owner = models.CharField(max_length=200, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    dispatched_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    salvages = models.PositiveSmallIntegerField(default=0, help_text="Tries to save the rows of a vanished worker")

    queued_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    progress = models.JSONField(default=dict)
    progress_series = models.JSONField(default=list, help_text="One thinned point a second while it ran")

    valid = models.BooleanField(null=True, blank=True)
    reason_code = models.CharField(max_length=60, blank=True)
    reason = models.TextField(blank=True)
    summary = models.JSONField(null=True, blank=True)
    definitions_version = models.PositiveIntegerField(null=True, blank=True)
    requests_file = models.FileField(upload_to="runs", blank=True, max_length=300)
    power_file = models.FileField(upload_to="runs", blank=True, max_length=300)
    server_file = models.FileField(upload_to="runs", blank=True, max_length=300)
    answers_file = models.FileField(upload_to="runs", blank=True, max_length=300)
    tags = models.JSONField(default=list)
    reserved_usd = models.DecimalField(
        max_digits=24, decimal_places=12, null=True, blank=True, help_text="Most that it may cost at a paid endpoint"
    )
    settled_usd = models.DecimalField(
        max_digits=24, decimal_places=12, null=True, blank=True, help_text="What its rows say that it cost there"
    )

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=("status", "lease_expires_at")),)
        constraints = (
            models.UniqueConstraint(
                fields=("endpoint",), condition=Q(status="running"), name="one_running_run_per_endpoint"
            ),
            models.UniqueConstraint(
                fields=("accelerator_group",),
                condition=Q(status="running") & ~Q(accelerator_group=""),
                name="one_running_run_per_accelerator_group",
            ),
            models.CheckConstraint(
                condition=Q(kind="load") ^ Q(benchmark__isnull=True), name="load_runs_have_a_benchmark"
            ),
            models.UniqueConstraint(
                fields=("gathering",), condition=Q(gathering=True), name="one_run_gathers_load_hosts_at_a_time"
            ),
        )

    def __str__(self) -> str:
        return f"Run {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.pk])

    @property
    def asks(self) -> str:
        """What is put to the deployment, by name: its benchmark, or the task set of an evaluation."""
        if self.benchmark is not None:
            return self.benchmark.name
        return f"quality: {(self.spec.get('tasks') or {}).get('name', '')}"

    @property
    def ended(self) -> bool:
        return self.status not in (self.Status.QUEUED, self.Status.RUNNING)


class Shard(models.Model):
    """The part of a running run that one load host carries; the first is that of the run's own worker.

    waiting -> measuring -> ended | lost. Times in nanoseconds: ``begin_ns`` on the shard's own CLOCK_MONOTONIC.
    """

    class Status(models.TextChoices):
        WAITING = "waiting"
        MEASURING = "measuring"
        ENDED = "ended"
        LOST = "lost"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="shards")
    index = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField()
    status = models.CharField(max_length=20, choices=Status, default=Status.WAITING)
    owner = models.CharField(max_length=200, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    dispatched_at = models.DateTimeField(null=True, blank=True)
    stop = models.BooleanField(default=False)
    progress = models.JSONField(default=dict)

    clock_offset_ns = models.BigIntegerField(null=True, blank=True, help_text="Broker's time less its CLOCK_MONOTONIC")
    clock_bound_ns = models.BigIntegerField(null=True, blank=True)
    clock_drift_ns = models.BigIntegerField(null=True, blank=True, help_text="How much the offset changed by the end")
    ready_step = models.IntegerField(default=-1)
    begin_step = models.IntegerField(default=-1)
    begin_ns = models.BigIntegerField(null=True, blank=True)

    ending = models.CharField(max_length=20, blank=True, choices=Run.Status)
    code = models.CharField(max_length=60, blank=True)
    text = models.TextField(blank=True)
    summary = models.JSONField(null=True, blank=True)
    requests_file = models.FileField(upload_to="runs", blank=True, max_length=300)

    class Meta:
        ordering = ("run", "index")
        constraints = (models.UniqueConstraint(fields=("run", "index"), name="shard_once_per_run"),)

    def __str__(self) -> str:
        return f"Shard {self.index} of run {self.run_id}"

    @property
    def host(self) -> str:
        return self.owner.rpartition(":")[0]


class Sampling(models.Model):
    """Power that the worker of one machine samples for a running run that is driven from another one.

    waiting -> sampling -> ended | lost. It counts as ready once its clock is known. Clocks: the broker's time less its
    CLOCK_MONOTONIC, in nanoseconds, before and after.
    """

    class Status(models.TextChoices):
        WAITING = "waiting"
        SAMPLING = "sampling"
        ENDED = "ended"
        LOST = "lost"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="samplings")
    host = models.CharField(max_length=63, help_text="The name in the worker's queue, power.NAME")
    epoch = models.PositiveIntegerField()
    status = models.CharField(max_length=20, choices=Status, default=Status.WAITING)
    owner = models.CharField(max_length=200, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    stop = models.BooleanField(default=False)
    power_w = models.FloatField(null=True, blank=True, help_text="Latest reading of all its devices together")

    clock_offset_ns = models.BigIntegerField(null=True, blank=True)
    clock_bound_ns = models.BigIntegerField(null=True, blank=True)
    end_offset_ns = models.BigIntegerField(null=True, blank=True)

    code = models.CharField(max_length=60, blank=True)
    text = models.TextField(blank=True)
    description = models.JSONField(null=True, blank=True, help_text="The sampler's account of itself")
    power_file = models.FileField(upload_to="runs", blank=True, max_length=300)

    class Meta:
        ordering = ("run", "host")
        constraints = (models.UniqueConstraint(fields=("run", "host"), name="sampling_once_per_host"),)

    def __str__(self) -> str:
        return f"Power of {self.host} for run {self.run_id}"


class Stage(models.Model):
    """One load level of a run, once for each repeat. planned = ok + failed + cancelled + not_sent, always."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="stages")
    index = models.PositiveIntegerField()
    load_kind = models.CharField(max_length=20)
    load_value = models.FloatField()
    repeat = models.PositiveIntegerField(default=1)
    verdict = models.CharField(max_length=40)
    reasons = models.JSONField(default=list)
    planned = models.PositiveIntegerField()
    ok = models.PositiveIntegerField()
    failed = models.PositiveIntegerField()
    cancelled = models.PositiveIntegerField()
    not_sent = models.PositiveIntegerField()
    failures = models.JSONField(default=dict)
    window_kind = models.CharField(max_length=20, blank=True)
    window_s = models.FloatField(null=True, blank=True)
    energy = models.JSONField(null=True, blank=True)
    cost = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ("run", "index")
        constraints = (models.UniqueConstraint(fields=("run", "index"), name="stage_once_per_run"),)

    def __str__(self) -> str:
        name = long_name(self.load_kind, self.load_value)
        return f"{name} #{self.repeat}" if self.repeat > 1 else name


class Measurement(models.Model):
    """One number: a statistic of a metric in a stage, with its interval, sample size and mark."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="measurements")
    stage = models.ForeignKey(Stage, on_delete=models.CASCADE, related_name="measurements")
    metric = models.CharField(max_length=60)
    statistic = models.CharField(max_length=10)
    value = models.FloatField()
    low = models.FloatField(null=True, blank=True)
    high = models.FloatField(null=True, blank=True)
    n = models.PositiveIntegerField(null=True, blank=True)
    mark = models.CharField(max_length=20)

    class Meta:
        indexes = (models.Index(fields=("metric", "statistic")),)
        constraints = (
            models.UniqueConstraint(fields=("stage", "metric", "statistic"), name="measurement_once_per_stage"),
        )

    def __str__(self) -> str:
        return f"{self.metric} {self.statistic} = {self.value}"


class Pricing(models.Model):
    """Prices and factors of another day, put to a stored run on purpose. What was measured, and the factors that the
    run was queued with (``Run.setup``), stay as they are.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="pricings")
    day = models.DateField(help_text="The day whose prices and factors these are")
    factors = models.JSONField()
    made_at = models.DateTimeField(auto_now_add=True)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)

    class Meta:
        ordering = ("run", "id")

    def __str__(self) -> str:
        return f"{self.run} at prices of {self.day}"
