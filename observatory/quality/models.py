from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse

from observatory.catalog.models import Deployment
from observatory.runs.models import Run


class TaskSet(models.Model):
    """An uploaded set of questions, as JSON lines."""

    name = models.CharField(max_length=100, unique=True)
    sha256 = models.CharField(max_length=64)
    items = models.PositiveIntegerField()
    lines = models.TextField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class QualityQuerySet(models.QuerySet["QualityResult"]):
    def known(self) -> "QualityQuerySet":
        """Those with a number that speak for their deployment as it is."""
        return self.filter(value__isnull=False, target={})


class QualityResult(models.Model):
    """What an evaluation found about a deployment: its own job's, or a file of lm-eval. ``value`` is null until the job
    has ended well, and for a file that has no single headline.
    """

    class Source(models.TextChoices):
        TASKS = "tasks"
        LM_EVAL = "lm-eval"

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="quality_results")
    job = models.OneToOneField(Run, null=True, blank=True, on_delete=models.PROTECT, related_name="quality")
    beside = models.ForeignKey(
        Run,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="quality_results",
        help_text="The load run, of the same deployment, that this quality stands beside",
    )
    source = models.CharField(max_length=20, choices=Source)
    task_set = models.CharField(max_length=200)
    tasks_sha256 = models.CharField(max_length=64, blank=True, help_text="Results compare only where this is the same")
    target = models.JSONField(default=dict, blank=True, help_text="What was asked otherwise than its endpoint says")
    metric = models.CharField(max_length=200, default="accuracy")
    value = models.FloatField(null=True, blank=True, help_text="A share, from 0 to 1")
    low = models.FloatField(null=True, blank=True)
    high = models.FloatField(null=True, blank=True)
    n = models.PositiveIntegerField(null=True, blank=True)
    summary = models.JSONField(default=dict)
    measured_at = models.DateTimeField(null=True, blank=True)
    reference_deployment = models.ForeignKey(
        Deployment, null=True, blank=True, on_delete=models.PROTECT, related_name="referring_results"
    )
    reference = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="referring")
    agreement = models.JSONField(null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = QualityQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(source="tasks") ^ Q(job__isnull=True), name="evaluations_have_a_job_and_files_none"
            ),
        )

    def __str__(self) -> str:
        return f"{self.task_set} on {self.deployment}"

    def get_absolute_url(self) -> str:
        return reverse("quality-result", args=[self.pk])

    @property
    def pending(self) -> bool:
        return self.job is not None and not self.job.ended
