"""The REST interface, version 1, with its description at docs and openapi.json."""

from ninja import NinjaAPI
from ninja.renderers import JSONRenderer
from ninja.throttling import AuthRateThrottle

from observatory.api import (
    benchmarks,
    calculators,
    deployments,
    endpoints,
    errors,
    facts,
    pricings,
    quality,
    results,
    runs,
    schedules,
    studies,
    workload_files,
)
from observatory.api.auth import BearerToken
from observatory.api.parameters import known_only

_DESCRIPTION = """Measure LLM serving by program. Each address needs `Authorization: Bearer TOKEN`; make a token on the
Tokens page or with `manage.py token USERNAME NAME`. Every error has the same shape: `code`, `detail`, `fix`, `fields`.
Missing values are null, never 0."""


class StrictJSON(JSONRenderer):
    """NaN and Infinity are no JSON: they would be a fault of ours, and are never sent."""

    json_dumps_params = {"allow_nan": False}


api = NinjaAPI(
    title="Inference Observatory",
    version="1",
    description=_DESCRIPTION,
    auth=BearerToken(),
    throttle=AuthRateThrottle("100/s"),
    renderer=StrictJSON(),
    urls_namespace="api",
)
errors.install(api)
api.add_decorator(known_only)
# The sheets come first: runs.csv and runs/5.csv would else be read as keys of runs.
api.add_router("", results.router)
api.add_router("/endpoints", endpoints.router)
api.add_router("/deployments", deployments.router)
api.add_router("/accelerators", facts.accelerators_router)
api.add_router("/embodied", facts.embodied_router)
api.add_router("/sites", facts.sites_router)
api.add_router("/benchmarks", benchmarks.router)
api.add_router("/workload-files", workload_files.router)
api.add_router("/runs", runs.router)
api.add_router("/runs", pricings.router)
api.add_router("/schedules", schedules.router)
api.add_router("/studies", studies.router)
api.add_router("/trials", studies.trials_router)
api.add_router("/quality", quality.router)
api.add_router("/calc", calculators.router)
