from datetime import date
from typing import Any

from cryptography.x509 import load_pem_x509_certificates
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.urls import reverse

from observatory.catalog import recipes, wire
from observatory.catalog.accelerators import NOT_NEGATIVE, Accelerator, AcceleratorPrice, EmbodiedFactors, today
from observatory.catalog.fields import EncryptedTextField, EndpointURLField, storable, visible_ascii
from runners.address import AddressError, parse_endpoint
from runners.budget import Billing
from runners.powers import HOST_NAME, POOL_NAME
from runners.spec import Dialect, SpecError

__all__ = [
    "DECODE",
    "FACTORS",
    "Accelerator",
    "AcceleratorPrice",
    "Billing",
    "Deployment",
    "EmbodiedFactors",
    "Endpoint",
    "Pool",
    "Site",
    "SiteFactors",
    "today",
]

MAX_PEM = 100_000


#: What a site's factors are; each may be unknown.
FACTORS = (
    "pue",
    "wue_l_per_kwh",
    "electricity_usd_per_kwh",
    "grid_g_per_kwh",
    "grid_market_g_per_kwh",
    "grid_l_per_kwh",
)


class SiteQuerySet(models.QuerySet["Site"]):
    def on(self, day: date) -> "SiteQuerySet":
        """With the factors that hold on that day beside the fields of the site."""
        rows = SiteFactors.objects.filter(site=models.OuterRef("pk"), effective_from__lte=day)
        latest = rows.order_by("-effective_from")
        names = (*FACTORS, "pue_low", "pue_high", "effective_from", "note", "source")
        return self.annotate(**{name: models.Subquery(latest.values(name)[:1]) for name in names})


class Site(models.Model):
    """Where hardware stands. What is known of it, with its dates, are its ``factors``."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=150)
    provider = models.CharField(max_length=100, blank=True)
    region = models.CharField(max_length=100, blank=True)
    seeded = models.CharField(max_length=64, blank=True, editable=False)

    objects = SiteQuerySet.as_manager()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def factors_on(self, day: date) -> "SiteFactors":
        """The factors that hold on a day; all unknown where there are none."""
        known = self.factors.filter(effective_from__lte=day).order_by("-effective_from").first()
        return known or SiteFactors(site=self)

    @property
    def current(self) -> "SiteFactors":
        return self.factors_on(today())


class SiteFactors(models.Model):
    """Overhead, water, electricity price and grid of a site from a day on. What changes is a new row."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="factors")
    effective_from = models.DateField()
    pue = models.FloatField(null=True, blank=True, validators=(MinValueValidator(1), MaxValueValidator(5)))
    pue_low = models.FloatField(
        null=True, blank=True, validators=(MinValueValidator(1), MaxValueValidator(5)), help_text="Where it is a range"
    )
    pue_high = models.FloatField(null=True, blank=True, validators=(MinValueValidator(1), MaxValueValidator(5)))
    wue_l_per_kwh = models.FloatField(null=True, blank=True, validators=NOT_NEGATIVE)
    electricity_usd_per_kwh = models.FloatField(null=True, blank=True, validators=NOT_NEGATIVE)
    grid_g_per_kwh = models.FloatField(
        null=True, blank=True, validators=NOT_NEGATIVE, help_text="Location based: the average of the grid"
    )
    grid_market_g_per_kwh = models.FloatField(
        null=True, blank=True, validators=NOT_NEGATIVE, help_text="Market based: after the operator's contracts"
    )
    grid_l_per_kwh = models.FloatField(
        null=True, blank=True, validators=NOT_NEGATIVE, help_text="Water of making the electricity"
    )
    note = models.TextField(blank=True)
    source = models.TextField(blank=True)
    seeded = models.CharField(max_length=64, blank=True, editable=False)

    class Meta:
        ordering = ("site", "-effective_from")
        verbose_name_plural = "site factors"
        constraints = (models.UniqueConstraint(fields=("site", "effective_from"), name="factors_once_a_day"),)

    def __str__(self) -> str:
        return f"{self.site} from {self.effective_from}"

    def clean(self) -> None:
        ends = (self.pue_low, self.pue_high)
        if ends != (None, None) and not 1 <= (self.pue_low or 0) <= (self.pue or 0) <= (self.pue_high or 0):
            raise ValidationError({"pue_low": "Give both ends of the range, with the PUE between them, or neither."})


#: How an endpoint is paid for, in words.
BILLING = {
    Billing.UNSAID: "not said: by what is known of its address and model",
    Billing.MACHINE: "by the hour of its machines",
    Billing.TOKENS: "by the token",
    Billing.FREE: "not at all",
}


class Endpoint(models.Model):
    """A serving address. Its secrets, the key and the client certificate with its key, are encrypted at rest and never
    shown again. The key stays with the host, proxy and authority that it was entered for.
    """

    #: In place of an address where a worker starts the engine for each run; the name can never be another's.
    STARTED_URL = "http://started-by-the-worker.invalid"

    #: Whoever changes an endpoint says so when the key was entered with the change; else it is the stored one.
    key_entered = False

    name = models.CharField(max_length=100, unique=True)
    url = EndpointURLField(
        max_length=500, help_text="Base address, such as http://gpu-1:8000 or https://api.example.com/v1"
    )
    dialect = models.CharField(
        max_length=40, choices=[(d.value, d.value) for d in Dialect], default=Dialect.OPENAI_CHAT.value
    )
    model = models.CharField(max_length=200, help_text="Model name as the server expects it")
    api_key = EncryptedTextField(blank=True, default="", validators=(visible_ascii,))
    api_key_header = models.CharField(
        max_length=200,
        blank=True,
        help_text='Such as x-api-key, or "Authorization: Token"; empty: as the dialect wants',
    )
    extra_headers = models.JSONField(default=dict, blank=True, validators=(storable,))
    extra_body = models.JSONField(default=dict, blank=True, validators=(storable,))
    ca_pem = models.TextField(blank=True, max_length=MAX_PEM, help_text="Authorities to trust instead of the system's")
    client_pem = EncryptedTextField(blank=True, default="", max_length=MAX_PEM)
    proxy = models.CharField(max_length=500, blank=True, help_text="Such as http://proxy:3128; tunnels with CONNECT")
    metrics_url = models.CharField(
        max_length=500, blank=True, help_text="The server's metrics page; empty: /metrics of this address"
    )
    billing = models.CharField(
        max_length=20, choices=[(way.value, words) for way, words in BILLING.items()], default=Billing.UNSAID.value
    )
    price_provider = models.CharField(
        max_length=60, blank=True, help_text="For the list price, such as openai; empty: found by the address"
    )
    price_model = models.CharField(
        max_length=200, blank=True, help_text="The model's name in the price list; empty: the name above"
    )
    input_usd_per_mtok = models.DecimalField(
        max_digits=18, decimal_places=9, null=True, blank=True, validators=NOT_NEGATIVE
    )
    output_usd_per_mtok = models.DecimalField(
        max_digits=18, decimal_places=9, null=True, blank=True, validators=NOT_NEGATIVE
    )
    recipe = models.JSONField(
        default=dict,
        blank=True,
        help_text="How a worker starts the engine for each run; empty: a server that others run",
    )
    probe = models.JSONField(null=True, blank=True, editable=False)
    probed_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("endpoint", args=[self.pk])

    def clean_fields(self, exclude: Any = None) -> None:
        """Where the observatory starts the engine, its recipe says the address and, if need be, the model."""
        try:
            recipe = recipes.read(self.recipe) if self.recipe else None
        except SpecError as error:
            raise ValidationError({"recipe": str(error)}) from None
        if recipe:
            if self.url not in ("", self.STARTED_URL):
                raise ValidationError({"url": "Leave it empty: a worker starts the engine, on a port that is free."})
            self.recipe, self.url = recipe.to_json(), self.STARTED_URL
            self.model = self.model or recipe.served_name
        super().clean_fields(exclude=exclude)

    def clean(self) -> None:
        """A stored key does not follow the address to another scheme, host or port, nor to who could read it on the
        way: another proxy or authority.
        """
        if _origin(self.url) is None or self.dialect not in set(Dialect):
            return
        wire.check(self)
        stored = Endpoint.objects.filter(pk=self.pk).first() if self.pk else None
        if stored is None or not self.api_key or self.key_entered or self.api_key != stored.api_key:
            return
        if _origin(stored.url) != _origin(self.url):
            words = "The stored key is for the address before. Enter the key for the new one, or remove the stored key."
            raise ValidationError({"api_key": words})
        if (stored.proxy, stored.ca_pem) != (self.proxy, self.ca_pem):
            words = (
                "The stored key is for the proxy and authority before. Enter the key again, or remove the stored key."
            )
            raise ValidationError({"api_key": words})

    @property
    def api_key_hint(self) -> str:
        """The last four characters of the key, for recognising it; empty without one."""
        return f"…{self.api_key[-4:]}" if len(self.api_key) >= 12 else ("…" if self.api_key else "")

    @property
    def client_hint(self) -> str:
        """Whose the client certificate is and how long it is good; empty without one."""
        if not self.client_pem:
            return ""
        try:
            first = load_pem_x509_certificates(self.client_pem.encode())[0]
        except ValueError:
            return "…"
        return f"{first.subject.rfc4514_string()}, until {first.not_valid_after_utc:%Y-%m-%d}"


def _origin(url: str) -> tuple[str, str, int] | None:
    try:
        address = parse_endpoint(url)
    except AddressError:
        return None
    return address.scheme, address.host, address.port


def host_names(text: str) -> None:
    """Refuses what cannot be a part of a queue's name."""
    for name in filter(None, (part.strip() for part in text.split(","))):
        if not HOST_NAME.fullmatch(name):
            raise ValidationError(
                f"{name[:63]} is not a name of letters, digits, dots, hyphens and underscores, such as gpu-1"
            )


class Deployment(models.Model):
    """What stands behind an endpoint: engine, precision, parallelism, hardware, price, place."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="deployments")
    name = models.CharField(max_length=100, unique=True)
    engine = models.CharField(max_length=50, blank=True)
    engine_version = models.CharField(max_length=50, blank=True)
    precision = models.CharField(max_length=50, blank=True, help_text="Such as bf16, fp8, q4_0")
    tensor_parallel = models.PositiveIntegerField(default=1)
    pipeline_parallel = models.PositiveIntegerField(default=1)
    replicas = models.PositiveIntegerField(default=1)
    runs_on_cpu = models.BooleanField(
        default=False, verbose_name="Runs on the CPU", help_text="No accelerator stands behind it"
    )
    accelerator_group = models.CharField(
        max_length=100,
        blank=True,
        help_text="Name of the machine or card group. Runs that share one never overlap.",
    )
    usd_per_hour = models.DecimalField(
        max_digits=12,
        decimal_places=4,
        null=True,
        blank=True,
        validators=NOT_NEGATIVE,
        help_text="Price of the whole deployment for an hour",
    )
    price_source = models.CharField(max_length=200, blank=True)
    site = models.ForeignKey(Site, null=True, blank=True, on_delete=models.PROTECT)
    power_hosts = models.CharField(
        max_length=300,
        blank=True,
        validators=(host_names,),
        help_text="Names of the machines that serve, separated by commas; on each a worker with -Q power.NAME samples. "
        "Empty: the server is on the load host, or its energy is not measured.",
    )
    gpu_shared = models.BooleanField(
        default=False,
        verbose_name="GPU shared",
        help_text="Other models or services run on the same GPUs: what they take is in its energy, and it is compared "
        "with that of shared GPUs only.",
    )
    queries_per_hour = models.FloatField(
        null=True,
        blank=True,
        validators=(MinValueValidator(0.001),),
        help_text="Traffic that it gets, for its energy with the idle time between. Empty when unknown.",
    )

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("deployment", args=[self.pk])

    @property
    def power_host_names(self) -> list[str]:
        """In the order given, each once."""
        return list(dict.fromkeys(filter(None, (name.strip() for name in self.power_hosts.split(",")))))

    @property
    def pool_list(self) -> "list[Pool]":
        """What was said of its accelerators; none for a deployment that is not stored yet."""
        return [] if self._state.adding else list(self.pools.all())

    @property
    def serving_pool(self) -> "Pool | None":
        """The accelerators that make the tokens: the pool named decode, else the first."""
        pools = self.pool_list
        return next((pool for pool in pools if pool.name == DECODE), pools[0] if pools else None)

    @property
    def hardware(self) -> str:
        """Such as "2x H100 SXM", or "CPU" where someone said so; what nobody stated is not guessed."""
        pools = self.pool_list
        if pools:
            return " + ".join(pool.hardware if len(pools) == 1 else f"{pool.name} {pool.hardware}" for pool in pools)
        return "CPU" if self.runs_on_cpu else "hardware not stated"


#: The name of the pool that makes the output tokens, where pools share the work.
DECODE = "decode"


class Pool(models.Model):
    """Accelerators of a deployment that do the same part of the work. A plain deployment has one, without a name."""

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="pools")
    name = models.CharField(
        max_length=40,
        blank=True,
        validators=(RegexValidator(POOL_NAME, "Letters and digits, such as prefill or decode."),),
        help_text="Such as prefill or decode; empty for the only one",
    )
    accelerator = models.ForeignKey(Accelerator, on_delete=models.PROTECT)
    count = models.PositiveIntegerField(default=1, validators=(MinValueValidator(1),))
    gpus = models.CharField(
        max_length=1000,
        blank=True,
        verbose_name="GPUs",
        help_text="Which of the machine: 0,1 or GPU-1a2b or gpu-1/*. One pool may leave it empty: it has the rest.",
    )
    usd_per_hour = models.DecimalField(
        max_digits=12,
        decimal_places=4,
        null=True,
        blank=True,
        validators=NOT_NEGATIVE,
        verbose_name="Part of the price, $ per hour",
    )

    class Meta:
        ordering = ("deployment", "id")

    def __str__(self) -> str:
        return f"{self.name or 'accelerators'} of {self.deployment}"

    @property
    def hardware(self) -> str:
        return f"{self.count}x {self.accelerator.name}"

    @property
    def gpu_names(self) -> tuple[str, ...]:
        return tuple(name for part in self.gpus.split(",") if (name := part.strip()))
