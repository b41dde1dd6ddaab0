from django.conf import settings
from django.db import models
from django.urls import reverse

from observatory.catalog.models import Deployment
from runners.spec import Arrivals

#: Those that need nothing but a rate.
ARRIVALS = (Arrivals.CLOSED, Arrivals.CONSTANT, Arrivals.POISSON)


class Benchmark(models.Model):
    """A question put to a deployment, to be asked again and again. Numbers mean the same as in ``runners.spec``."""

    name = models.CharField(max_length=100, unique=True)
    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="benchmarks")
    input_tokens = models.PositiveIntegerField(default=128)
    output_tokens = models.PositiveIntegerField(default=128)
    seed = models.BigIntegerField(default=0)
    arrivals = models.CharField(
        max_length=20, choices=[(a.value, a.value) for a in ARRIVALS], default=Arrivals.CLOSED.value
    )
    levels = models.JSONField(default=list, help_text="Concurrencies, or requests per second; one stage each")
    requests = models.PositiveIntegerField(null=True, blank=True)
    duration_s = models.FloatField(null=True, blank=True)
    warmup_s = models.FloatField(default=0)
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
