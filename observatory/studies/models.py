from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment
from observatory.runs.models import Run


class Study(models.Model):
    """A question and the design that answers it. It stays as it was made: to change it, copy it.

    ``spec``, ``measures`` and ``prediction`` are described in docs/studies.md and checked by ``design``.
    """

    class Order(models.TextChoices):
        ABBA = "abba", "there and back: A B, B A, A B"
        RANDOM = "random", "at random within each repeat"

    name = models.CharField(max_length=60, unique=True)
    question = models.TextField()
    template = models.SlugField(max_length=60, blank=True, help_text="The ready-made study that it was made from")
    spec = models.JSONField(default=dict, help_text="What every arm is asked, in the form of runners.spec")
    measures = models.JSONField(default=list, help_text="The first one decides")
    smallest_effect_percent = models.FloatField(default=5, help_text="Smaller differences do not matter")
    prediction = models.JSONField(default=dict, blank=True, help_text="Calculator, inputs and what it predicts")
    quality = models.JSONField(default=dict, blank=True, help_text="The questions put to each arm; empty: none")
    factor = models.CharField(max_length=60, blank=True, help_text="What the arms' x is, such as prompt tokens")
    repeats = models.PositiveSmallIntegerField(default=3)
    order = models.CharField(max_length=10, choices=Order, default=Order.ABBA)
    seed = models.PositiveIntegerField(default=0)
    look_for = models.TextField(blank=True)
    limits = models.TextField(blank=True, help_text="What this cannot show where it runs")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "studies"

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("study", args=[self.pk])


class Arm(models.Model):
    """One of the things compared; the first is the baseline. Its runs belong to a benchmark of its own."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="arms")
    index = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=36)
    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="arms")
    spec = models.JSONField(default=dict, blank=True, help_text="Laid over the study's")
    theory = models.JSONField(default=dict, blank=True, help_text="Inputs of the calculator, over the study's")
    x = models.FloatField(null=True, blank=True)
    benchmark = models.OneToOneField(Benchmark, on_delete=models.PROTECT, related_name="arm")

    class Meta:
        ordering = ("study", "index")
        constraints = (
            models.UniqueConstraint(fields=("study", "index"), name="arm_once_per_study"),
            models.UniqueConstraint(fields=("study", "name"), name="arm_name_once_per_study"),
        )

    def __str__(self) -> str:
        return self.name


class Trial(models.Model):
    """One carrying out of a study. States move by compare-and-set: running -> finished | failed | cancelled.

    finished: every run had its turn, and the arms could be compared. failed: they could not.
    """

    class Status(models.TextChoices):
        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"
        CANCELLED = "cancelled"

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="trials")
    status = models.CharField(max_length=20, choices=Status, default=Status.RUNNING)
    trigger = models.CharField(max_length=20, choices=Run.Trigger)
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    result = models.JSONField(null=True, blank=True, help_text="The verdict as it was when the trial ended")

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(fields=("study",), condition=Q(status="running"), name="one_running_trial_a_study"),
        )

    def __str__(self) -> str:
        return f"Trial {self.pk}"

    def get_absolute_url(self) -> str:
        return f"{reverse('study', args=[self.study_id])}?trial={self.pk}"

    @property
    def ended(self) -> bool:
        return self.status != self.Status.RUNNING


class Slot(models.Model):
    """One turn of a trial, in the order that was drawn when it began. ``note``: why it has no run.

    The evaluations come after all repeats; their ``repeat`` is 0.
    """

    trial = models.ForeignKey(Trial, on_delete=models.CASCADE, related_name="slots")
    index = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=10, choices=Run.Kind, default=Run.Kind.LOAD)
    repeat = models.PositiveSmallIntegerField()
    arm = models.ForeignKey(Arm, on_delete=models.CASCADE, related_name="slots")
    run = models.OneToOneField(Run, null=True, blank=True, on_delete=models.PROTECT, related_name="slot")
    note = models.TextField(blank=True)

    class Meta:
        ordering = ("trial", "index")
        constraints = (models.UniqueConstraint(fields=("trial", "index"), name="slot_once_per_trial"),)

    def __str__(self) -> str:
        return f"quality, {self.arm}" if self.kind == Run.Kind.QUALITY else f"repeat {self.repeat}, {self.arm}"
