"""From an address to a first run: the endpoint, deployment and benchmark that the first-run guide makes."""

from typing import Any

from django.contrib.auth.models import User

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from observatory.pages.estimates import ASSUMED, Estimate, estimate, pace_of
from observatory.runs import spec
from runners.address import parse_endpoint

#: About a minute: one user, then four.
PLAN: dict[str, Any] = {
    "workload": {"input_tokens": 128, "output_tokens": 64},
    "load": {"levels": [1, 4], "duration_s": 25, "warmup_s": 2},
}


#: What another endpoint at the same address has in common with the first.
_SAME = ("url", "dialect", "api_key", "api_key_header", "extra_headers", "extra_body", "ca_pem", "client_pem", "proxy",
         "metrics_url", "probe", "probed_at")  # fmt: skip


def endpoint_for(url: str, dialect: str, user: User) -> Endpoint:
    """The known endpoint at that address, or a new one (unsaved) named after its host. Raises AddressError."""
    address = parse_endpoint(url)
    known = Endpoint.objects.filter(url=address.url, dialect=dialect).first()
    return known or Endpoint(name=_free(Endpoint, address.authority), url=address.url, dialect=dialect, created_by=user)


def with_model(endpoint: Endpoint, model: str, user: User) -> Endpoint:
    """The endpoint for that model. One that has deployments keeps its own: another is made beside it."""
    if endpoint.model == model:
        return endpoint
    other = Endpoint.objects.filter(url=endpoint.url, dialect=endpoint.dialect, model=model).first()
    if other:
        return other
    if endpoint.deployments.exists():
        name = _free(Endpoint, f"{model} at {endpoint.name}")
        endpoint = Endpoint(name=name, created_by=user, **{field: getattr(endpoint, field) for field in _SAME})
    endpoint.model = model
    endpoint.save()
    return endpoint


def benchmark_for(endpoint: Endpoint, user: User) -> Benchmark:
    """The quick look at the endpoint's first deployment; both are made when they are not there yet."""
    deployment = endpoint.deployments.first() or _deployment(endpoint)
    return _known(deployment) or Benchmark.objects.create(
        name=_free(Benchmark, _name(deployment)), deployment=deployment, created_by=user, **PLAN
    )


def _name(deployment: Deployment) -> str:
    return f"Quick look: {deployment.name}"[:100]


def _known(deployment: Deployment) -> Benchmark | None:
    return Benchmark.objects.filter(name=_name(deployment), deployment=deployment).first()


def forecast(endpoint: Endpoint) -> Estimate:
    """What the quick look will take."""
    known = endpoint.deployments.first()
    asked = spec.build(Benchmark(deployment=known or Deployment(endpoint=endpoint), **PLAN))
    return estimate(asked, pace_of(known, _known(known)) if known else ASSUMED)


def _deployment(endpoint: Endpoint) -> Deployment:
    probe = endpoint.probe or {}
    return Deployment.objects.create(
        endpoint=endpoint,
        name=_free(Deployment, f"{endpoint.model} at {endpoint.name}"),
        engine=str(probe.get("engine", ""))[:50],
        engine_version=str(probe.get("engine_version", ""))[:50],
    )


def _free(kind: Any, name: str) -> str:
    """``name``, cut to fit, or with a number behind it when it is taken."""
    name = name[:90]
    taken = set(kind.objects.filter(name__startswith=name).values_list("name", flat=True))
    return name if name not in taken else next(f"{name} {n}" for n in range(2, 10_000) if f"{name} {n}" not in taken)
