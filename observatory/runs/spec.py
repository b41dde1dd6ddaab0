"""A benchmark, its deployment and its site as the specification that the instrument is given."""

import hashlib
import json
import secrets
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from observatory.benchmarks import files
from observatory.benchmarks.models import Benchmark
from observatory.catalog import pools, wire
from observatory.catalog.models import FACTORS, Deployment, Pool, Site, today
from observatory.runs import embodied, money
from runners.address import AddressError
from runners.load.target import Requests, base_endpoint
from runners.quality.spec import QualitySpec
from runners.spec import RunSpec, SpecError, extent

#: The variable through which the instrument gets the endpoint's key; no file ever holds it.
API_KEY_VARIABLE = "OBSERVATORY_API_KEY"


def build(benchmark: Benchmark) -> RunSpec:
    """The specification of a new run, with a salt of its own. Raises SpecError that names the field and the fix."""
    deployment = benchmark.deployment
    endpoint = deployment.endpoint
    if endpoint.recipe and benchmark.load_hosts > 1:
        raise SpecError(
            "shard.count: the engine is started on the worker, out of reach of other load hosts; ask for 1 load host"
        )
    asked = RunSpec.from_json(
        {
            "target": wire.target(endpoint, API_KEY_VARIABLE),
            "workload": benchmark.workload,
            "load": benchmark.load,
            "slo": {
                "ttft_ms": benchmark.slo_ttft_ms,
                "tpot_ms": benchmark.slo_tpot_ms,
                "e2e_ms": benchmark.slo_e2e_ms,
            },
            "power": {
                "source": benchmark.power_source,
                "hosts": _power_hosts(benchmark),
                "shared": deployment.gpu_shared,
                "pools": [asdict(pool) for pool in pools.specs(deployment.pool_list)],
            },
            "account": _account(deployment),
            "server": {"url": endpoint.metrics_url},
            "shard": {"count": benchmark.load_hosts},
            "salt": secrets.token_hex(8),
        }
    )
    _check_dialect(asked)
    hashes = {name: file.sha256 for name, file in files.found(asked.workload).items()}
    return replace(asked, files=hashes, budget=money.budget(endpoint, partial(extent, asked)))


def _check_dialect(asked: RunSpec) -> None:
    """Raises SpecError for what the endpoint's dialect has no words for."""
    try:
        Requests(base_endpoint(asked.target.url, asked.target.dialect), asked.target, asked.workload)
    except AddressError as error:
        raise SpecError(f"target.url: {error}") from None


def _account(deployment: Deployment) -> dict[str, Any]:
    site, price = deployment.site, deployment.usd_per_hour
    factors = site.current if site else None
    return {
        "usd_per_hour": None if price is None else float(price),
        "price_source": "" if price is None else deployment.price_source,
        "pue": factors.pue if factors else None,
        "pue_source": (factors.source or str(site)) if factors and factors.pue is not None else "",
        "pue_low": factors.pue_low if factors else None,
        "pue_high": factors.pue_high if factors else None,
        "queries_per_hour": deployment.queries_per_hour,
    }


def _power_hosts(benchmark: Benchmark) -> list[str]:
    return [] if benchmark.power_source == "none" else benchmark.deployment.power_host_names


def fingerprint(spec: RunSpec | QualitySpec) -> str:
    """SHA-256 of all but the salt and what it may cost: equal for runs that ask the same."""
    asked = {name: value for name, value in spec.to_json().items() if name not in ("salt", "budget")}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, allow_nan=False).encode()).hexdigest()


def setup(benchmark: Benchmark) -> dict[str, Any]:
    """What is asked and of whom, in plain JSON: later edits leave a run as it was."""
    return {"benchmark": benchmark.name, **deployment_setup(benchmark.deployment)}


def deployment_setup(deployment: Deployment) -> dict[str, Any]:
    """The deployment as it is now."""
    endpoint = deployment.endpoint
    return {
        "deployment": deployment.name,
        "endpoint": {
            "name": endpoint.name,
            "url": endpoint.url,
            "dialect": endpoint.dialect,
            "model": endpoint.model,
            "recipe": endpoint.recipe,
            "billing": endpoint.billing,
            "price_provider": endpoint.price_provider,
            "price_model": endpoint.price_model,
            "rates": money.frozen(endpoint),
        },
        "engine": deployment.engine,
        "engine_version": deployment.engine_version,
        "precision": deployment.precision,
        "tensor_parallel": deployment.tensor_parallel,
        "pipeline_parallel": deployment.pipeline_parallel,
        "replicas": deployment.replicas,
        "pools": [_pool(pool) for pool in deployment.pool_list],
        "accelerator_group": deployment.accelerator_group,
        "gpu_shared": deployment.gpu_shared,
        "hardware": deployment.hardware,
        "usd_per_hour": None if deployment.usd_per_hour is None else float(deployment.usd_per_hour),
        "price_source": deployment.price_source,
        "site": _site(deployment.site),
    }


def _pool(pool: Pool) -> dict[str, Any]:
    """With the carbon of making it as it is known today."""
    return {
        "name": pool.name,
        "accelerator": {"slug": pool.accelerator.slug, "name": pool.accelerator.name},
        "count": pool.count,
        "gpus": list(pool.gpu_names),
        "usd_per_hour": None if pool.usd_per_hour is None else float(pool.usd_per_hour),
        "embodied": embodied.known(pool.accelerator.slug, today()),
    }


def _site(site: Site | None) -> dict[str, Any] | None:
    """The site with the factors of today, their day and their source."""
    if site is None:
        return None
    factors = site.current
    return {
        "slug": site.slug,
        "name": site.name,
        **{name: getattr(factors, name) for name in FACTORS},
        "effective_from": factors.effective_from.isoformat() if factors.effective_from else None,
        "source": factors.source,
    }
