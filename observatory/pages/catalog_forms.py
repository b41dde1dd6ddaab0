"""Forms of the catalog. Words and limits of the fields come from the models."""

from typing import Any

from django import forms

from observatory.catalog.models import FACTORS, AcceleratorPrice, Deployment, Endpoint, SiteFactors


class EndpointForm(forms.ModelForm):  # type: ignore[type-arg]
    """The stored key is never sent to the browser: an empty field keeps it, the box below removes it."""

    forget_key = forms.BooleanField(required=False, label="Remove the stored key")

    class Meta:
        model = Endpoint
        fields = (
            "name",
            "url",
            "model",
            "dialect",
            "api_key",
            "billing",
            "price_provider",
            "price_model",
            "input_usd_per_mtok",
            "output_usd_per_mtok",
        )
        labels = {
            "url": "URL",
            "api_key": "API key",
            "billing": "Paid",
            "price_provider": "Provider in the price list",
            "price_model": "Model in the price list",
            "input_usd_per_mtok": "Or $ per M input tokens",
            "output_usd_per_mtok": "and $ per M output tokens",
        }
        widgets = {
            "url": forms.TextInput(attrs={"inputmode": "url", "placeholder": "http://gpu-1:8000"}),
            "api_key": forms.PasswordInput(attrs={"autocomplete": "off"}),
        }
        help_texts = {
            "model": "As the server calls it. Leave empty to take the first that the server names.",
            "dialect": "What the server speaks: openai-chat for most, the others by their engine's name.",
            "api_key": "Only if the server asks for one. It is stored encrypted and not shown again.",
            "billing": "By the token: a run sets its worst case aside; none starts while the price is unknown.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stored_key = self.instance.api_key
        self.fields["model"].required = False
        self.fields["billing"].required = False
        if self.stored_key:
            self.fields[
                "api_key"
            ].help_text = f"A key that ends with {self.instance.api_key_hint} is stored. Leave empty to keep it."
        else:
            del self.fields["forget_key"]

    def clean_api_key(self) -> str:
        self.instance.key_entered = bool(self.cleaned_data["api_key"])
        return str(self.cleaned_data["api_key"] or self.stored_key)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("forget_key"):
            cleaned["api_key"] = self.data.get(self.add_prefix("api_key"), "")
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
            "accelerator",
            "accelerator_count",
            "runs_on_cpu",
            "accelerator_group",
            "tensor_parallel",
            "pipeline_parallel",
            "replicas",
            "usd_per_hour",
            "price_source",
            "site",
            "power_hosts",
            "queries_per_hour",
        )
        labels = {
            "usd_per_hour": "Price, $ per hour",
            "power_hosts": "Power hosts",
            "queries_per_hour": "Traffic, queries an hour",
        }
        widgets = {"power_hosts": forms.TextInput(attrs={"placeholder": "gpu-1"})}
        help_texts = {
            "accelerator": "Leave empty when unknown, or when it runs on the CPU.",
            "runs_on_cpu": "Tick it where no accelerator does the work; with neither, the hardware is not stated.",
            "usd_per_hour": "Of the whole deployment: all accelerators together. Leave empty when unknown.",
            "price_source": "Where the price comes from, such as an offer or an invoice.",
            "site": "For PUE and the electricity price. Leave empty when unknown.",
        }


class SiteFactorsForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = SiteFactors
        fields = ("effective_from", *FACTORS, "source", "note")
        labels = {
            "effective_from": "From",
            "pue": "PUE",
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
