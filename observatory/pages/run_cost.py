"""The Cost tab: what the measured tokens cost on a chosen basis. The URL holds every choice."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any

from observatory.catalog.models import AcceleratorPrice
from observatory.pages.results import RunResults, StageResults
from observatory.pages.run_api_cost import Charged, charge
from observatory.runs import money
from observatory.runs.pricing import Factors, Priced, chosen, moment, pricings
from observatory.theory.accounts import hourly
from observatory.theory.accounts.hourly import Basis, Denominator, Hour, Terms
from runners.budget import Billing
from runners.metrics import Mark, significant
from runners.prices import lists
from runners.prices.cost import Rates

BASES = {
    Basis.RENT: "Rent",
    Basis.OWN: "Own",
    Basis.ELECTRICITY: "Electricity only",
    Basis.API: "API price",
}
TERMS = {
    Terms.RESERVED: "Reserved: every hour is paid",
    Terms.ON_DEMAND: "On demand: only hours that serve are paid",
}
DEFAULT_YEARS = 4.0
_MOST_USD = 1e9


@dataclass(frozen=True)
class Choice:
    """What the URL asks for. ``utilisation`` is a share. ``api`` is "provider/model" of the price list, or empty;
    ``batch`` takes the price of its batch interface.
    """

    basis: Basis
    utilisation: float
    capex_usd: float | None
    years: float
    api: str
    pricing: str
    terms: Terms = Terms.RESERVED
    batch: bool = False


def choice(query: Mapping[str, str]) -> Choice:
    """What cannot be read is as if it had not been given."""
    asked = query.get("basis", "")
    return Choice(
        basis=Basis(asked) if asked in list(Basis) else Basis.RENT,
        utilisation=(_number(query.get("utilisation", ""), 1, 100) or 100) / 100,
        capex_usd=_number(query.get("capex_usd", ""), 0, _MOST_USD),
        years=_number(query.get("years", ""), 0.1, 30) or DEFAULT_YEARS,
        api=query.get("api", "").strip()[:200],
        pricing=query.get("pricing", ""),
        terms=Terms.ON_DEMAND if query.get("terms") == Terms.ON_DEMAND else Terms.RESERVED,
        batch=bool(query.get("batch")),
    )


def _number(text: str, low: float, high: float) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if low <= value <= high else None


@dataclass(frozen=True)
class Row:
    """A stage's cost; None with ``reason`` where something that it needs is unknown."""

    stage: StageResults
    usd_per_hour: float | None
    usd_per_mtok_output: float | None
    usd_per_mtok_total: float | None
    usd_per_query: float | None
    mark: Mark
    how: str
    reason: str = ""


@dataclass(frozen=True)
class Part:
    """What an hour of the deployment, or of a pool of it, is counted from; None is unknown."""

    usd_per_hour: float | None
    power_w: float | None = None
    capex_usd: float | None = None
    name: str = "deployment"


def pool_capex_usd(pool: Mapping[str, Any], day: date) -> float | None:
    """What the accelerators of a pool cost to buy on a day, at the lowest known price."""
    rows = AcceleratorPrice.objects.on(day).filter(accelerator__slug=pool["accelerator"]["slug"])
    price = rows.filter(purchase_usd__isnull=False).order_by("purchase_usd").first()
    return None if price is None or price.purchase_usd is None else float(price.purchase_usd) * int(pool["count"])


class RunCost:
    """The costs of a run's stages on the basis that ``choice`` names."""

    def __init__(self, results: RunResults, chosen: Choice) -> None:
        self.results = results
        self.choice = chosen
        self._charged: dict[int, Charged] = {}

    @cached_property
    def pricings(self) -> list[Priced]:
        return pricings(self.results.run)

    @cached_property
    def priced(self) -> Priced:
        return chosen(self.results.run, self.choice.pricing)

    @property
    def factors(self) -> Factors:
        return self.priced.factors

    @cached_property
    def capex_usd(self) -> float | None:
        """As asked, else the purchase price of the deployment's accelerators on the day of the prices."""
        if self.choice.capex_usd is not None:
            return self.choice.capex_usd
        prices = [pool_capex_usd(pool, self.priced.day) for pool in self.factors.pools]
        return None if not prices or None in prices else sum(price for price in prices if price is not None)

    @cached_property
    def api(self) -> str:
        """As asked, else the model that the endpoint is paid for by the token."""
        endpoint = self.results.run.setup.get("endpoint") or {}
        if self.choice.api or endpoint.get("billing") != Billing.TOKENS:
            return self.choice.api
        return "/".join(filter(None, (endpoint.get("price_provider"), endpoint["price_model"] or endpoint["model"])))

    @cached_property
    def rates(self) -> tuple[Rates | None, str]:
        """What the endpoint charged, as it was kept, or the list price of a model when the run started; or why none."""
        kept = self.factors.rates
        if kept and not self.choice.api and not self.choice.batch:
            return Rates.from_json(kept), ""
        if not self.api:
            return None, "name a model of the price list, such as openai/gpt-4o"
        provider, slash, model = self.api.partition("/")
        known = provider in {name for name, _ in lists.token_models()}
        asked = (model, provider) if slash and known else (self.api, "")
        at = moment(self.results.run, self.priced.day if self.priced.pk else None)
        found = lists.quote(*asked, at=at, batch=self.choice.batch)
        return found.rates, found.reason

    @property
    def on_demand(self) -> bool:
        """Rented hours that do not serve are given back, so utilisation does not matter."""
        return self.choice.terms is Terms.ON_DEMAND

    def row(self, stage: StageResults, basis: Basis | None = None, utilisation: float | None = None) -> Row:
        """The stage on a basis and at a utilisation, by default the chosen ones."""
        basis = basis or self.choice.basis
        if basis is Basis.API:
            return self._api_row(stage)
        whole = Part(self.factors.usd_per_hour, stage.value("power_w"), self.capex_usd)
        return self.row_of(whole, stage, basis, utilisation)

    def row_of(self, part: Part, stage: StageResults, basis: Basis, utilisation: float | None = None) -> Row:
        """What a part of the deployment makes the tokens of the stage cost; the whole is a part as well."""
        hour = self._hour(part, basis)
        if isinstance(hour, str):
            return Row(stage, None, None, None, None, Mark.MEASURED, "", hour)
        if basis is Basis.OWN or (basis is Basis.RENT and not self.on_demand):
            hour = hour.shared(utilisation or self.choice.utilisation, "of the hours serve")
        output, total, queries = (
            stage.value(key) for key in ("output_tokens_per_s", "total_tokens_per_s", "request_per_s")
        )
        return Row(
            stage,
            hour.usd,
            hourly.token_price(hour.usd, output, Denominator.OUTPUT).usd if output else None,
            hourly.token_price(hour.usd, total, Denominator.TOTAL).usd if total else None,
            hourly.query_price(hour.usd, queries) if queries else None,
            self._mark(basis, stage),
            hour.words,
        )

    def _hour(self, part: Part, basis: Basis) -> Hour | str:
        """An hour that serves without a break, or what is unknown."""
        factors = self.factors
        if basis is Basis.RENT:
            unknown = f"the {part.name} had no price"
            return unknown if part.usd_per_hour is None else _rent(part, self.choice.terms)
        power_w = part.power_w
        if power_w is None:
            return "energy was not measured"
        if factors.pue is None or factors.electricity_usd_per_kwh is None:
            return "PUE and electricity price of the site are not both known"
        if basis is Basis.ELECTRICITY:
            return hourly.electricity(power_w, factors.pue, factors.electricity_usd_per_kwh)
        if part.capex_usd is None:
            return "the price of purchase is unknown: enter it above"
        years, price = self.choice.years, factors.electricity_usd_per_kwh
        return hourly.own(part.capex_usd, years, power_w=power_w, pue=factors.pue, usd_per_kwh=price)

    def charged(self, stage: StageResults) -> Charged:
        """What the API would charge for the requests of a stage; looked at once."""
        if stage.index not in self._charged:
            used = stage.metered(reasoning_apart=money.reasoning_apart(self.results.run))
            self._charged[stage.index] = charge(used, *self.rates)
        return self._charged[stage.index]

    def _api_row(self, stage: StageResults) -> Row:
        found = self.charged(stage)
        if found.usd_per_query is None:
            return Row(stage, None, None, None, None, Mark.MEASURED, "", found.reason)
        hour = self._api_hour_usd(stage)
        return Row(
            stage,
            None if hour is None else float(hour),
            _float(found.usd_per_mtok_output),
            _float(found.usd_per_mtok_total),
            float(found.usd_per_query),
            found.mark,
            found.words,
        )

    def _api_hour_usd(self, stage: StageResults) -> Decimal | None:
        """An hour of the stage's requests at the API."""
        per_query, queries = self.charged(stage).usd_per_query, stage.value("request_per_s")
        return None if per_query is None or not queries else per_query * Decimal(str(queries)) * 3600

    def _mark(self, basis: Basis, stage: StageResults) -> Mark:
        """Rent without a source is assumed; electricity is as its power; a purchase is always assumed."""
        if basis is Basis.OWN:
            return Mark.ASSUMED
        if basis is Basis.RENT:
            return Mark.MEASURED if self.factors.price_source else Mark.ASSUMED
        return Mark.ASSUMED if not self.factors.source else Mark(stage.numbers["power_w", "mean"].mark)

    def break_even(self, stage: StageResults) -> tuple[Decimal | None, str]:
        """Share of the hours that must serve like this for a rented machine to cost what the API would."""
        hour = self._hour(Part(self.factors.usd_per_hour), Basis.RENT)
        if isinstance(hour, str):
            return None, hour
        api_usd = self._api_hour_usd(stage)
        if not api_usd:
            return None, self.charged(stage).reason or "the API charges nothing for these requests"
        rent_usd = Decimal(str(hour.usd))
        if self.on_demand:
            cheaper = "rent" if rent_usd < api_usd else "the API"
            return None, f"{cheaper} is cheaper at any utilisation: on demand, idle hours are not paid"
        return hourly.break_even_utilisation(rent_usd, api_usd), ""


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _rent(part: Part, terms: Terms) -> Hour:
    paid = "only hours that serve are paid" if terms is Terms.ON_DEMAND else "every hour is paid"
    usd = part.usd_per_hour or 0.0
    return Hour(usd, Basis.RENT, f"{usd:g} $/h for the {part.name}, {terms}: {paid}")


def context(results: RunResults, stage: StageResults, query: Mapping[str, str]) -> dict[str, Any]:
    """What the Cost tab shows."""
    cost = RunCost(results, choice(query))
    rows = [cost.row(item) for item in results.stages]
    shown = next(row for row in rows if row.stage is stage)
    share, why = cost.break_even(stage)
    return {
        "cost": cost,
        "bases": [(basis.value, label, basis is cost.choice.basis) for basis, label in BASES.items()],
        "terms": [(terms.value, label, terms is cost.choice.terms) for terms, label in TERMS.items()],
        "percent": round(100 * cost.choice.utilisation),
        "by_utilisation": cost.choice.basis is Basis.OWN or (cost.choice.basis is Basis.RENT and not cost.on_demand),
        "slider_place": round(1000 * (100 * cost.choice.utilisation - 1) / 99),
        "cost_rows": rows,
        "shown": shown,
        "charged": cost.charged(stage),
        "break_even": share,
        "break_even_percent": None if share is None else significant(100 * float(share)),
        "break_even_reason": why,
        "price_models": [f"{provider}/{model}" for provider, model in lists.token_models()
                         if provider in ("anthropic", "openai", "google", "mistral", "deepseek", "x-ai")],
    }  # fmt: skip
