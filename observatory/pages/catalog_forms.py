"""Forms of the catalog. Words and limits of the fields come from the models."""

from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError

from observatory.catalog.models import (
    FACTORS,
    AcceleratorPrice,
    Deployment,
    EmbodiedFactors,
    Endpoint,
    Pool,
    SiteFactors,
)


class HeadersField(forms.CharField):
    """A header a line, name: value; a dictionary in Python."""

    widget = forms.Textarea(attrs={"rows": 2})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(f"{name}: {text}" for name, text in value.items()) if isinstance(value, dict) else value

    def clean(self, value: Any) -> dict[str, str]:
        lines = [line.partition(":") for line in super().clean(value).splitlines() if line.strip()]
        if not all(colon for _, colon, _ in lines):
            raise ValidationError("Write a header a line, such as X-Team: search.")
        return {name.strip(): text.strip() for name, _, text in lines}


class BodyField(forms.JSONField):
    """A JSON object; empty for none."""

    widget = forms.Textarea(attrs={"rows": 2})

    def prepare_value(self, value: Any) -> Any:
        return "" if value == {} else super().prepare_value(value)

    def clean(self, value: Any) -> Any:
        found = super().clean(value)
        if found is not None and not isinstance(found, dict):
            raise ValidationError('Give a JSON object, such as {"top_k": 20}.')
        return found or {}


#: Secrets, and the boxes that remove them.
_FORGET = {"api_key": "forget_key", "client_pem": "forget_client"}
_PEM = {"rows": 2, "autocomplete": "off", "spellcheck": "false"}


class SecretTextarea(forms.Textarea):
    """Never gives back what was typed into it."""

    def format_value(self, value: Any) -> None:
        return None


class EndpointForm(forms.ModelForm):  # type: ignore[type-arg]
    """Stored secrets are never sent to the browser: an empty field keeps what is stored, the box below removes it."""

    extra_headers = HeadersField(
        required=False, label="Headers more", help_text="One a line, such as X-Team: search. No secrets."
    )
    extra_body = BodyField(
        required=False, label="Body fields more", help_text='JSON, such as {"top_k": 20}; they go over the own fields.'
    )
    more = (
        "api_key_header",
        "extra_headers",
        "extra_body",
        "ca_pem",
        "client_pem",
        "forget_client",
        "proxy",
        "metrics_url",
    )
    forget_key = forms.BooleanField(required=False, label="Remove the stored key")
    forget_client = forms.BooleanField(required=False, label="Remove the client certificate")

    class Meta:
        model = Endpoint
        fields = (
            "name",
            "url",
            "model",
            "dialect",
            "api_key",
            "api_key_header",
            "extra_headers",
            "extra_body",
            "ca_pem",
            "client_pem",
            "proxy",
            "metrics_url",
            "billing",
            "price_provider",
            "price_model",
            "input_usd_per_mtok",
            "output_usd_per_mtok",
        )
        labels = {
            "url": "URL",
            "api_key": "API key",
            "api_key_header": "Header of the key",
            "ca_pem": "Authorities (CA)",
            "client_pem": "Client certificate and key",
            "metrics_url": "Metrics page",
            "billing": "Paid",
            "price_provider": "Provider in the price list",
            "price_model": "Model in the price list",
            "input_usd_per_mtok": "Or $ per M input tokens",
            "output_usd_per_mtok": "and $ per M output tokens",
        }
        widgets = {
            "url": forms.TextInput(attrs={"inputmode": "url", "placeholder": "http://gpu-1:8000"}),
            "api_key": forms.PasswordInput(attrs={"autocomplete": "off"}),
            "ca_pem": forms.Textarea(attrs=_PEM),
            "client_pem": SecretTextarea(attrs=_PEM),
        }
        help_texts = {
            "model": "As the server calls it. Leave empty to take the first that the server names.",
            "dialect": "What the server speaks: openai-chat for most, the others by their engine's name.",
            "api_key": "Only if the server asks for one. It is stored encrypted and not shown again.",
            "ca_pem": "PEM; trusted instead of the system's. Empty: the system's.",
            "client_pem": "For servers that ask for one: PEM, the key behind the certificate, no password. It is "
            "stored encrypted and not shown again.",
            "billing": "By the token: a run sets its worst case aside; none starts while the price is unknown. "
            "Not said: none starts where address or model are known to be paid by the token.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stored = {name: getattr(self.instance, name) for name in _FORGET}
        self.fields["model"].required = False
        self.fields["billing"].required = False
        hints = {
            "api_key": f"A key that ends with {self.instance.api_key_hint}",
            "client_pem": f"That of {self.instance.client_hint}",
        }
        for name, box in _FORGET.items():
            if self.stored[name]:
                self.fields[name].help_text = f"{hints[name]} is stored. Leave empty to keep it."
            else:
                del self.fields[box]

    @property
    def more_open(self) -> bool:
        """Whether something is set among the fields that are folded away."""
        set_ = any(getattr(self.instance, name, "") for name in self.more)
        return set_ or any(name in self.errors for name in self.more)

    def clean_api_key(self) -> str:
        self.instance.key_entered = bool(self.cleaned_data["api_key"])
        return str(self.cleaned_data["api_key"] or self.stored["api_key"])

    def clean_client_pem(self) -> str:
        return str(self.cleaned_data["client_pem"] or self.stored["client_pem"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for name, box in _FORGET.items():
            if cleaned.get(box):
                cleaned[name] = self.data.get(self.add_prefix(name), "")
        return cleaned

    def _get_validation_exclusions(self) -> set[str]:
        """The model may stay empty until the server has been asked for its models."""
        return super()._get_validation_exclusions() | {"model"}  # type: ignore[misc,no-any-return]


class DeploymentForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Deployment
        fields = (
            "name",
            "endpoint",
            "engine",
            "engine_version",
            "precision",
            "runs_on_cpu",
            "accelerator_group",
            "tensor_parallel",
            "pipeline_parallel",
            "replicas",
            "usd_per_hour",
            "price_source",
            "site",
            "power_hosts",
            "gpu_shared",
            "queries_per_hour",
        )
        labels = {
            "usd_per_hour": "Price, $ per hour",
            "power_hosts": "Power hosts",
            "queries_per_hour": "Traffic, queries an hour",
        }
        widgets = {"power_hosts": forms.TextInput(attrs={"placeholder": "gpu-1"})}
        help_texts = {
            "runs_on_cpu": "Tick it where no accelerator does the work; with neither, the hardware is not stated.",
            "usd_per_hour": "Of the whole deployment: all accelerators together. Leave empty when unknown, or when the "
            "pools below have their parts.",
            "price_source": "Where the price comes from, such as an offer or an invoice.",
            "site": "For PUE and the electricity price. Leave empty when unknown.",
        }


class PoolForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Pool
        fields = ("name", "accelerator", "count", "gpus", "usd_per_hour")
        widgets = {
            "name": forms.TextInput(attrs={"placeholder": "the only pool", "list": "pool-names"}),
            "gpus": forms.TextInput(attrs={"placeholder": "all"}),
        }


class PoolFormSet(forms.BaseModelFormSet):  # type: ignore[type-arg]
    """The accelerators of a deployment, a row a pool; an empty row is none."""

    @property
    def pools(self) -> list[Pool]:
        """As they were filled in, once valid."""
        return [
            form.instance
            for form in self.forms
            if form.cleaned_data.get("accelerator") and not form.cleaned_data.get("DELETE")
        ]


def pool_forms(deployment: Deployment, data: Any = None) -> PoolFormSet:
    """With the pools that are stored and one empty row; one more appears with each saving."""
    made = forms.modelformset_factory(
        Pool, form=PoolForm, formset=PoolFormSet, extra=1 if deployment.pool_list else 2, can_delete=True, max_num=16
    )
    pks = [pool.pk for pool in deployment.pool_list]
    return cast(PoolFormSet, made(data, queryset=Pool.objects.filter(pk__in=pks), prefix="pools"))


class EmbodiedForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = EmbodiedFactors
        fields = (
            "accelerator",
            "effective_from",
            "accelerator_made_kg",
            "server_made_kg",
            "accelerators_per_server",
            "lifetime_years",
            "source",
            "note",
        )
        labels = {
            "effective_from": "From",
            "accelerator_made_kg": "Making an accelerator, kg CO₂e",
            "server_made_kg": "Making a server, kg CO₂e",
            "lifetime_years": "Lifetime, years",
        }
        help_texts = {
            "effective_from": "The day from which these numbers hold.",
            "source": "Where these numbers come from.",
        }
        widgets = {
            "effective_from": forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
            "source": forms.TextInput(),
            "note": forms.TextInput(),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["accelerator"]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101
        field.empty_label = "all without a row of their own"


class SiteFactorsForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = SiteFactors
        fields = ("effective_from", *FACTORS, "pue_low", "pue_high", "source", "note")
        labels = {
            "effective_from": "From",
            "pue": "PUE",
            "pue_low": "PUE, lowest",
            "pue_high": "PUE, highest",
            "wue_l_per_kwh": "WUE, litres per kWh",
            "electricity_usd_per_kwh": "Electricity, $ per kWh",
            "grid_g_per_kwh": "Grid, location based, g CO₂e per kWh",
            "grid_market_g_per_kwh": "Grid, market based, g CO₂e per kWh",
            "grid_l_per_kwh": "Grid, litres of water per kWh",
        }
        help_texts = {
            "effective_from": "The day from which these numbers hold.",
            "pue": "Facility energy over IT energy: 1.09 is Google's fleet, 1.5 a usual server room.",
            "wue_l_per_kwh": "At the site, per kWh of IT energy.",
            "source": "Where these numbers come from.",
        }
        widgets = {
            "effective_from": forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
            "source": forms.TextInput(),
            "note": forms.TextInput(),
        }


class PriceForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = AcceleratorPrice
        fields = ("provider", "kind", "effective_from", "usd_per_hour", "purchase_usd", "source", "note")
        labels = {"effective_from": "From", "usd_per_hour": "Rent, $ per hour", "purchase_usd": "Or purchase, $"}
        help_texts = {
            "effective_from": "The day from which this price holds.",
            "source": "Where the price comes from, such as an offer or an invoice.",
        }
        widgets = {
            "effective_from": forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
            "source": forms.TextInput(),
            "note": forms.TextInput(),
        }

    def _get_validation_exclusions(self) -> set[str]:
        """The accelerator is set by the page and belongs to what must be unique."""
        return super()._get_validation_exclusions() - {"accelerator"}  # type: ignore[misc,no-any-return]
