"""What is known of accelerators: data sheets, prices, and what making them emitted, each with its day and source."""

from datetime import UTC, date, datetime

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

NOT_NEGATIVE = (MinValueValidator(0),)


def today() -> date:
    return datetime.now(UTC).date()


class Accelerator(models.Model):
    """A kind of GPU or other accelerator, with its data sheet. Peaks are dense, per accelerator."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    vendor = models.CharField(max_length=50)
    arch = models.CharField(max_length=50, blank=True)
    form_factor = models.CharField(max_length=50, blank=True)
    memory_gb = models.FloatField(null=True, blank=True)
    mem_bandwidth_gb_s = models.FloatField(null=True, blank=True)
    bf16_dense_tflops = models.FloatField(null=True, blank=True)
    fp8_dense_tflops = models.FloatField(null=True, blank=True)
    int8_dense_tops = models.FloatField(null=True, blank=True)
    fp4_dense_tflops = models.FloatField(null=True, blank=True)
    tdp_w = models.FloatField(null=True, blank=True)
    provisioned_kw = models.FloatField(
        null=True, blank=True, help_text="Planned for one with its share of the site; not a measurement"
    )
    scaleup_gb_s = models.FloatField(null=True, blank=True, help_text="Link to the other accelerators, both directions")
    scaleup_tech = models.CharField(max_length=50, blank=True)
    measured_bf16_tflops = models.FloatField(null=True, blank=True, help_text="Highest that a benchmark has reached")
    confidence = models.CharField(max_length=20, blank=True)
    note = models.TextField(blank=True)
    source = models.TextField(blank=True)
    provisioned_source = models.TextField(blank=True)
    seeded = models.CharField(max_length=64, blank=True, editable=False)

    class Meta:
        ordering = ("vendor", "name")

    def __str__(self) -> str:
        return self.name


class PriceQuerySet(models.QuerySet["AcceleratorPrice"]):
    def on(self, day: date) -> "PriceQuerySet":
        """Of each provider and kind the price that holds on that day."""
        same = {name: models.OuterRef(name) for name in ("accelerator", "provider", "kind")}
        latest = AcceleratorPrice.objects.filter(effective_from__lte=day, **same).order_by("-effective_from")
        return self.filter(pk=models.Subquery(latest.values("pk")[:1]))


class AcceleratorPrice(models.Model):
    """What one accelerator costs somewhere from a day on: for an hour, or to buy. A new price is a new row."""

    accelerator = models.ForeignKey(Accelerator, on_delete=models.CASCADE, related_name="prices")
    provider = models.CharField(max_length=100)
    kind = models.CharField(max_length=50, help_text="Such as on-demand, 3-year rental, purchase")
    effective_from = models.DateField()
    usd_per_hour = models.DecimalField(
        max_digits=12, decimal_places=4, null=True, blank=True, validators=NOT_NEGATIVE, help_text="Rent of one"
    )
    purchase_usd = models.DecimalField(
        max_digits=12, decimal_places=2, null=True, blank=True, validators=NOT_NEGATIVE, help_text="Of one"
    )
    note = models.TextField(blank=True)
    source = models.TextField(blank=True)
    seeded = models.CharField(max_length=64, blank=True, editable=False)

    objects = PriceQuerySet.as_manager()

    class Meta:
        ordering = ("accelerator", "usd_per_hour", "provider", "-effective_from")
        constraints = (
            models.UniqueConstraint(
                fields=("accelerator", "provider", "kind", "effective_from"), name="one_price_a_day"
            ),
            models.CheckConstraint(
                condition=models.Q(usd_per_hour__isnull=True) ^ models.Q(purchase_usd__isnull=True),
                name="rent_or_purchase",
                violation_error_message="Give either the price of an hour or the price of purchase.",
            ),
        )

    def __str__(self) -> str:
        price = f"{self.purchase_usd} $" if self.usd_per_hour is None else f"{self.usd_per_hour} $/h"
        return f"{self.accelerator} at {self.provider} ({self.kind}): {price} from {self.effective_from}"


class EmbodiedQuerySet(models.QuerySet["EmbodiedFactors"]):
    def on(self, day: date) -> "EmbodiedQuerySet":
        """Of each accelerator, and of all others together, the row that holds on that day."""
        latest = EmbodiedFactors.objects.filter(effective_from__lte=day).order_by("-effective_from")
        own = latest.filter(accelerator=models.OuterRef("accelerator")).values("pk")[:1]
        general = latest.filter(accelerator=None).values("pk")[:1]
        named = models.Q(accelerator__isnull=False, pk=models.Subquery(own))
        return self.filter(named | models.Q(accelerator=None, pk=models.Subquery(general)))

    def of(self, slug: str, day: date) -> "EmbodiedFactors | None":
        """What holds for an accelerator on a day: its own row, else that of all others."""
        found = self.on(day).filter(models.Q(accelerator__slug=slug) | models.Q(accelerator=None))
        return found.order_by(models.F("accelerator").asc(nulls_last=True)).first()


class EmbodiedFactors(models.Model):
    """Carbon of making an accelerator and its part of a server, from a day on. What changes is a new row."""

    accelerator = models.ForeignKey(
        Accelerator,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="embodied",
        help_text="Empty: all that have no row of their own",
    )
    effective_from = models.DateField()
    accelerator_made_kg = models.FloatField(validators=NOT_NEGATIVE)
    server_made_kg = models.FloatField(validators=NOT_NEGATIVE, help_text="Without its accelerators")
    accelerators_per_server = models.FloatField(default=8, validators=(MinValueValidator(1),))
    lifetime_years = models.FloatField(validators=(MinValueValidator(0.1), MaxValueValidator(30)))
    note = models.TextField(blank=True)
    source = models.TextField(blank=True)
    seeded = models.CharField(max_length=64, blank=True, editable=False)

    objects = EmbodiedQuerySet.as_manager()

    class Meta:
        ordering = (models.F("accelerator").asc(nulls_first=True), "-effective_from")
        verbose_name_plural = "embodied factors"
        constraints = (
            models.UniqueConstraint(fields=("accelerator", "effective_from"), name="embodied_once_a_day"),
            models.UniqueConstraint(
                fields=("effective_from",),
                condition=models.Q(accelerator__isnull=True),
                name="general_embodied_once_a_day",
            ),
        )

    def __str__(self) -> str:
        return f"{self.accelerator or 'any accelerator'} from {self.effective_from}"
