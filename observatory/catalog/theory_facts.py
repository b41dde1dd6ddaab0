"""What the catalog knows, as inputs of calculators: an input of one of these names is filled, whatever the calculator.

==================  ================================================
parameters_b        parameters, in units of 1e9
active_b            those that one token uses, in units of 1e9
layers              transformer layers
hidden              width of the residual stream
heads, kv_heads     query heads, key and value heads
head_dim            width of one head
latent_dim          values per token and layer of a compressed cache (MLA), 0 without
experts             experts per layer, 1 in a dense model
experts_active      experts that one token uses
weight_bits         bits per weight
accelerators        accelerators that hold one copy of the model
memory_gb           memory of one, GB
bandwidth_gb_s      memory bandwidth of one, GB/s
peak_tflops         dense peak of one at the precision of the weights
link_gb_s           bandwidth of its link to the others, one direction, GB/s
tdp_w               its power limit, W
kw_per_accelerator  power provisioned for one, all-in, kW
usd_per_hour        price of the deployment, $/h
pue, wue_l_per_kwh, electricity_usd_per_kwh, grid_g_per_kwh: of the site
==================  ================================================
"""

from collections.abc import Mapping
from typing import Any

from observatory.catalog.models import Accelerator, Deployment, Site
from observatory.theory import shapes
from observatory.theory.calculator import Calculator, Refused
from observatory.theory.fields import written

#: Parameters of the URL that name where numbers come from.
SOURCES = ("deployment", "accelerator", "model")

_BITS = {"fp32": 32, "f32": 32, "bf16": 16, "fp16": 16, "f16": 16, "fp8": 8, "int8": 8, "q8_0": 8.5, "w8a8": 8}
_BITS |= {"int4": 4, "fp4": 4, "nvfp4": 4.5, "mxfp4": 4.25, "q4_0": 4.5, "q4_1": 5, "awq": 4.25, "gptq": 4.25}

Facts = dict[str, Any]


def fill(calculator: Calculator[Any, Any], given: Mapping[str, str], sources: Mapping[str, str]) -> dict[str, str]:
    """``given`` with what the named sources know about inputs of this calculator; what they do not know stays."""
    return {**given, **fitting(calculator, _facts(sources))}


def fitting(calculator: Calculator[Any, Any], facts: Facts) -> dict[str, str]:
    """Those facts that are inputs of this calculator and within its bounds, as text."""
    found = {name: written(value) for name, value in facts.items() if value is not None}
    names = {entry.name for entry in calculator.entries}
    return {name: text for name, text in found.items() if name in names and _allowed(calculator, name, text)}


def choices(calculator: Calculator[Any, Any]) -> dict[str, list[tuple[str, str]]]:
    """By source, what may be chosen: (value, label). A source that knows none of the inputs is left out."""
    names = {entry.name for entry in calculator.entries}
    offered = {
        "deployment": ([(str(item.pk), item.name) for item in Deployment.objects.all()], _OF_DEPLOYMENT),
        "accelerator": ([(item.slug, item.name) for item in Accelerator.objects.all()], _OF_ACCELERATOR),
        "model": ([(shape.slug, shape.name) for shape in shapes.SHAPES], _OF_MODEL),
    }
    return {name: options for name, (options, knows) in offered.items() if names & knows and options}


_OF_MODEL = {
    "parameters_b",
    "active_b",
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "latent_dim",
    "experts",
    "experts_active",
}
_OF_ACCELERATOR = {"memory_gb", "bandwidth_gb_s", "peak_tflops", "link_gb_s", "tdp_w", "kw_per_accelerator"}
_OF_SITE = {"pue", "wue_l_per_kwh", "electricity_usd_per_kwh", "grid_g_per_kwh"}
_OF_DEPLOYMENT = _OF_MODEL | _OF_ACCELERATOR | _OF_SITE | {"accelerators", "weight_bits", "usd_per_hour"}


def _facts(sources: Mapping[str, str]) -> Facts:
    facts: Facts = {}
    deployment = _deployment(sources.get("deployment", ""))
    if deployment is not None:
        facts |= of_deployment(deployment)
    accelerator = Accelerator.objects.filter(slug=sources.get("accelerator", "")).first()
    if accelerator is not None:
        facts |= _of_accelerator(accelerator, facts.get("weight_bits"))
    shape = shapes.BY_SLUG.get(sources.get("model", ""))
    return facts | (_of_model(shape) if shape else {})


def _deployment(text: str) -> Deployment | None:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        return None
    return (
        Deployment.objects.select_related("site", "endpoint")
        .prefetch_related("pools__accelerator")
        .filter(pk=int(text))
        .first()
    )


def of_deployment(deployment: Deployment) -> Facts:
    """What is known of a deployment: its accelerators, site and price, and its model where the shape is known."""
    pool = deployment.serving_pool
    facts = of_serving(
        deployment.endpoint.model,
        deployment.precision,
        pool.accelerator if pool else None,
        pool.count if pool else 1,
        deployment.replicas,
    )
    facts |= _of_site(deployment.site) if deployment.site else {}
    return facts | {"usd_per_hour": deployment.usd_per_hour}


def of_serving(model: str, precision: str, accelerator: Accelerator | None, count: int, replicas: int) -> Facts:
    """The shape of the model and the accelerators of one copy of it."""
    bits = _BITS.get(precision.strip().lower().replace("-", ""))
    shape = shapes.named(model)
    facts: Facts = {"weight_bits": bits} | (_of_model(shape) if shape else {})
    if accelerator:
        facts |= _of_accelerator(accelerator, bits)
        facts["accelerators"] = max(count // max(replicas, 1), 1)
    return facts


def _of_accelerator(accelerator: Accelerator, bits: float | None) -> Facts:
    peak = accelerator.bf16_dense_tflops
    if bits is not None and bits <= 8.5:
        peak = accelerator.fp8_dense_tflops or accelerator.int8_dense_tops or peak
    link = accelerator.scaleup_gb_s
    return {
        "memory_gb": accelerator.memory_gb,
        "bandwidth_gb_s": accelerator.mem_bandwidth_gb_s,
        "peak_tflops": peak,
        "link_gb_s": None if link is None else link / 2,
        "tdp_w": accelerator.tdp_w,
        "kw_per_accelerator": accelerator.provisioned_kw,
    }


def _of_site(site: Site) -> Facts:
    return {name: getattr(site.current, name) for name in sorted(_OF_SITE)}


def _of_model(shape: shapes.Shape) -> Facts:
    return {name: getattr(shape, name) for name in sorted(_OF_MODEL)}


def _allowed(calculator: Calculator[Any, Any], name: str, text: str) -> bool:
    try:
        return not calculator.faults(calculator.read({name: text}))
    except Refused:
        return False
