"""The prices and factors that a stored run is counted with: those of its own day, or on purpose those of another."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from typing import Any

from django.contrib.auth.models import User

from observatory.catalog.models import FACTORS, Deployment, today
from observatory.runs import embodied, money
from observatory.runs.models import Pricing, Run


@dataclass(frozen=True)
class Factors:
    """None is unknown. ``usd_per_hour`` is the rent of the whole deployment; the grid is location and market based.

    ``usd_per_hour_as_of``: the day that the rent is of, for a deployment keeps only one.
    ``rates``: what the endpoint charges by the token, as ``Rates.to_json``. ``pools``: the accelerators as in a run's
    setup, each with its part of the rent and the carbon of making it.
    """

    usd_per_hour: float | None = None
    usd_per_hour_as_of: str = ""
    price_source: str = ""
    pue: float | None = None
    wue_l_per_kwh: float | None = None
    electricity_usd_per_kwh: float | None = None
    grid_g_per_kwh: float | None = None
    grid_market_g_per_kwh: float | None = None
    grid_l_per_kwh: float | None = None
    site: str = ""
    source: str = ""
    effective_from: str = ""
    rates: dict[str, Any] | None = None
    pools: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Priced:
    """Factors with the day that they are of. ``pk`` is None for those that the run was queued with."""

    pk: int | None
    day: date
    factors: Factors


def pricings(run: Run) -> list[Priced]:
    """The run's own first, then the later ones."""
    own = Priced(None, run.queued_at.date(), _of_setup(run))
    return [own, *(Priced(item.pk, item.day, _from_json(item.factors)) for item in run.pricings.all())]


def chosen(run: Run, pk: str) -> Priced:
    """The pricing that is asked for, else the run's own."""
    found = pricings(run)
    return next((item for item in found if str(item.pk) == pk), found[0])


def moment(run: Run, day: date | None = None) -> datetime:
    """When the run started, else was queued, in UTC; of another day, the same time."""
    at = (run.started_at or run.queued_at).astimezone(UTC)
    return at if day is None else datetime.combine(day, at.timetz())


def price_again(run: Run, day: date, user: User | None = None) -> Pricing:
    """Puts the deployment's price as it is now and its site's factors of a day beside what the run was queued with."""
    deployment = run.deployment
    site = deployment.site
    known = site.factors_on(day) if site else None
    factors = Factors(
        usd_per_hour=None if deployment.usd_per_hour is None else float(deployment.usd_per_hour),
        usd_per_hour_as_of=today().isoformat(),
        price_source=deployment.price_source,
        site=str(site or ""),
        source=known.source if known else "",
        effective_from=known.effective_from.isoformat() if known and known.effective_from else "",
        rates=money.frozen(run.endpoint, moment(run, day)),
        pools=tuple(_pools(run, deployment, day)),
        **{name: getattr(known, name, None) for name in FACTORS},
    )
    return Pricing.objects.create(run=run, day=day, factors=asdict(factors), made_by=user)


def _pools(run: Run, deployment: Deployment, day: date) -> Iterator[dict[str, Any]]:
    """Those of the run, each with the rent that the pool of its name has now and what is known of a day."""
    rents = {pool.name: pool.usd_per_hour for pool in deployment.pool_list}
    for pool in run.setup.get("pools") or []:
        rent = rents.get(pool["name"])
        made = embodied.known(pool["accelerator"]["slug"], day)
        yield {**pool, "usd_per_hour": None if rent is None else float(rent), "embodied": made}


def _of_setup(run: Run) -> Factors:
    site = run.setup.get("site") or {}
    account = run.spec.get("account") or {}
    known = {name: site.get(name) for name in FACTORS}
    return Factors(
        usd_per_hour=account.get("usd_per_hour"),
        usd_per_hour_as_of=run.queued_at.date().isoformat(),
        price_source=account.get("price_source") or "",
        site=site.get("name") or "",
        source=site.get("source") or account.get("pue_source") or "",
        effective_from=site.get("effective_from") or "",
        rates=(run.setup.get("endpoint") or {}).get("rates"),
        pools=tuple(run.setup.get("pools") or ()),
        **{**known, "pue": account.get("pue")},
    )


def _from_json(data: dict[str, Any]) -> Factors:
    return Factors(**{field.name: data[field.name] for field in fields(Factors) if field.name in data})
