from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.urls import reverse

from observatory.catalog.models import Deployment
from runners.spec import Load, Workload
from runners.strict_json import build
from runners.workload_files import FileKind


class WorkloadFile(models.Model):
    """A file that workloads name: prompts, chats, a trace, lengths or a tokenizer. It never changes; what is different
    is another file. ``facts``: what ``runners.workload_files.look`` found in it.
    """

    name = models.CharField(
        max_length=100,
        unique=True,
        validators=(
            RegexValidator(
                r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
                "Use letters, digits, dots, hyphens and underscores, such as chats.jsonl.",
            ),
            RegexValidator(r"\.pem$", "Names that end with .pem are those of certificates.", inverse_match=True),
        ),
    )
    kind = models.CharField(max_length=20, choices=[(kind.value, kind.value) for kind in FileKind])
    file = models.FileField(upload_to="workloads", max_length=300)
    sha256 = models.CharField(max_length=64)
    size_bytes = models.BigIntegerField()
    facts = models.JSONField(default=dict)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Benchmark(models.Model):
    """A question put to a deployment, to be asked again and again. ``workload`` and ``load`` are those of
    ``runners.spec``, as JSON; file names in them are those of WorkloadFile rows.
    """

    name = models.CharField(max_length=100, unique=True)
    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="benchmarks")
    workload = models.JSONField(default=dict, blank=True)
    load = models.JSONField(default=dict, blank=True)
    slo_ttft_ms = models.FloatField(null=True, blank=True)
    slo_tpot_ms = models.FloatField(null=True, blank=True)
    slo_e2e_ms = models.FloatField(null=True, blank=True)
    power_source = models.CharField(max_length=20, default="auto")
    load_hosts = models.PositiveSmallIntegerField(default=1, help_text="Load hosts that carry the load together")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("benchmark", args=[self.pk])

    @property
    def asked_workload(self) -> Workload:
        """Raises SpecError."""
        found: Workload = build(Workload, self.workload, "workload")
        return found

    @property
    def asked_load(self) -> Load:
        """Raises SpecError."""
        found: Load = build(Load, self.load, "load")
        return found
