from django.conf import settings
from django.db import models
from django.urls import reverse

from observatory.benchmarks.models import Benchmark
from observatory.runs.models import Run
from observatory.studies.models import Study, Trial


class Schedule(models.Model):
    """A cron line, read in its time zone, that starts runs of a benchmark or trials of a study. ``next_due_at`` is UTC
    and decides.
    """

    benchmark = models.ForeignKey(Benchmark, null=True, blank=True, on_delete=models.CASCADE, related_name="schedules")
    study = models.ForeignKey(Study, null=True, blank=True, on_delete=models.CASCADE, related_name="schedules")
    cron = models.CharField(max_length=100)
    time_zone = models.CharField(max_length=60, default="UTC")
    enabled = models.BooleanField(default=True)
    next_due_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("benchmark", "study", "id")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(benchmark__isnull=True) ^ models.Q(study__isnull=True),
                name="benchmark_or_study",
                violation_error_message="A schedule belongs to a benchmark or to a study: name one of them.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.cron} ({self.time_zone})"

    def get_absolute_url(self) -> str:
        return reverse("schedule", args=[self.pk])

    @property
    def subject(self) -> Benchmark | Study:
        """What it starts."""
        found = self.benchmark or self.study
        assert found is not None  # noqa: S101
        return found


class Occurrence(models.Model):
    """One due time of a schedule and what came of it."""

    class Outcome(models.TextChoices):
        STARTED = "started"
        MISSED = "missed"
        SKIPPED = "skipped"

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="occurrences")
    due_at = models.DateTimeField()
    outcome = models.CharField(max_length=20, choices=Outcome)
    reason = models.CharField(max_length=200, blank=True)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL)
    trial = models.ForeignKey(Trial, null=True, blank=True, on_delete=models.SET_NULL)

    class Meta:
        ordering = ("-due_at",)
        constraints = (models.UniqueConstraint(fields=("schedule", "due_at"), name="occurrence_once"),)

    def __str__(self) -> str:
        return f"{self.due_at:%Y-%m-%d %H:%M} {self.outcome}"
