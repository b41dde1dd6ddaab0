"""A benchmark, its deployment and its site as the specification that the instrument is given."""

import hashlib
import json
import secrets
from typing import Any

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Site
from runners.spec import RunSpec

#: The variable through which the instrument gets the endpoint's key; no file ever holds it.
API_KEY_VARIABLE = "OBSERVATORY_API_KEY"


def build(benchmark: Benchmark) -> RunSpec:
    """The specification of a new run, with a salt of its own. Raises SpecError that names the field and the fix."""
    deployment = benchmark.deployment
    endpoint = deployment.endpoint
    return RunSpec.from_json(
        {
            "target": {
                "url": endpoint.url,
                "model": endpoint.model,
                "dialect": endpoint.dialect,
                "api_key_env": API_KEY_VARIABLE if endpoint.api_key else "",
            },
            "workload": {
                "input_tokens": benchmark.input_tokens,
                "output_tokens": benchmark.output_tokens,
                "seed": benchmark.seed,
            },
            "load": {
                "arrivals": benchmark.arrivals,
                "levels": benchmark.levels,
                "requests": benchmark.requests,
                "duration_s": benchmark.duration_s,
                "warmup_s": benchmark.warmup_s,
            },
            "slo": {
                "ttft_ms": benchmark.slo_ttft_ms,
                "tpot_ms": benchmark.slo_tpot_ms,
                "e2e_ms": benchmark.slo_e2e_ms,
            },
            "power": {"source": benchmark.power_source},
            "account": _account(deployment),
            "shard": {"count": benchmark.load_hosts},
            "salt": secrets.token_hex(8),
        }
    )


def _account(deployment: Deployment) -> dict[str, Any]:
    site = deployment.site
    price = deployment.usd_per_hour
    return {
        "usd_per_hour": None if price is None else float(price),
        "price_source": "" if price is None else deployment.price_source,
        "pue": site.pue if site else None,
        "pue_source": (site.source or site.name) if site and site.pue is not None else "",
    }


def fingerprint(spec: RunSpec) -> str:
    """SHA-256 of all but the salt: equal for runs that ask the same."""
    asked = {name: value for name, value in spec.to_json().items() if name != "salt"}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, allow_nan=False).encode()).hexdigest()


def setup(benchmark: Benchmark) -> dict[str, Any]:
    """The deployment as it is now, in plain JSON: later edits of the catalog leave a run as it was."""
    deployment = benchmark.deployment
    endpoint = deployment.endpoint
    accelerator = deployment.accelerator
    return {
        "benchmark": benchmark.name,
        "deployment": deployment.name,
        "endpoint": {
            "name": endpoint.name,
            "url": endpoint.url,
            "dialect": endpoint.dialect,
            "model": endpoint.model,
        },
        "engine": deployment.engine,
        "engine_version": deployment.engine_version,
        "precision": deployment.precision,
        "tensor_parallel": deployment.tensor_parallel,
        "pipeline_parallel": deployment.pipeline_parallel,
        "replicas": deployment.replicas,
        "accelerator": {"slug": accelerator.slug, "name": accelerator.name} if accelerator else None,
        "accelerator_count": deployment.accelerator_count if accelerator else 0,
        "accelerator_group": deployment.accelerator_group,
        "hardware": deployment.hardware,
        "usd_per_hour": None if deployment.usd_per_hour is None else float(deployment.usd_per_hour),
        "price_source": deployment.price_source,
        "site": _site(deployment.site),
    }


def _site(site: Site | None) -> dict[str, Any] | None:
    if site is None:
        return None
    return {
        "slug": site.slug,
        "name": site.name,
        "pue": site.pue,
        "wue_l_per_kwh": site.wue_l_per_kwh,
        "electricity_usd_per_kwh": site.electricity_usd_per_kwh,
        "grid_g_per_kwh": site.grid_g_per_kwh,
        "source": site.source,
    }
