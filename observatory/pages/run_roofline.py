"""The stages of a run against what the hardware of their deployment allows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from observatory.catalog import theory_facts
from observatory.catalog.models import DECODE, Accelerator
from observatory.pages.results import StageResults
from observatory.runs.models import Run
from observatory.theory import roofline as theory
from observatory.theory.calculator import Refused
from observatory.theory.fields import written

#: What must be known of the deployment, and where it is said.
_NEEDED = {
    "parameters_b": "the shape of its model",
    "weight_bits": "its precision",
    "bandwidth_gb_s": "an accelerator with a known bandwidth",
    "peak_tflops": "an accelerator with a known peak",
}


@dataclass(frozen=True)
class Roofline:
    """``outputs`` are None while ``missing`` says what is not known; ``address`` opens the calculator with the rest."""

    stage: StageResults
    outputs: theory.Outputs | None
    missing: tuple[str, ...]
    address: str

    @property
    def columns(self) -> list[tuple[Any, Any]]:
        """Numbers with what they are, for a row of a table."""
        names = ("mbu", "decode_mfu", "prefill_mfu", "decode_share", "limit_tpot_ms", "pj_per_byte", "j_per_token")
        abouts = {column.name: column.about for column in theory.ROOFLINE.columns}
        return [(getattr(self.outputs, name), abouts[name]) for name in names]


def roofline(run: Run, stage: StageResults) -> Roofline:
    """One stage. The deployment is taken as it was when the run was made."""
    facts = _facts(run)
    entries = {entry.name: entry for entry in theory.ROOFLINE.entries}
    found = {name: value for name, value in (_measured(run, stage) | facts).items() if name in entries}
    given = {name: written(value) for name, value in found.items() if value is not None or entries[name].optional}
    address = f"{reverse('theory-calculator', args=[theory.ROOFLINE.name])}?{urlencode(given)}"
    missing = tuple(dict.fromkeys(words for name, words in _NEEDED.items() if facts.get(name) is None))
    if missing:
        return Roofline(stage, None, missing, address)
    try:
        return Roofline(stage, theory.ROOFLINE.run(theory.ROOFLINE.read(given)), (), address)
    except Refused as error:
        return Roofline(stage, None, tuple(f"{fault.field}: {fault.problem}" for fault in error.faults), address)


def _facts(run: Run) -> theory_facts.Facts:
    setup = run.setup or {}
    pool = _serving_pool(setup)
    slug = (pool.get("accelerator") or {}).get("slug", "")
    return theory_facts.of_serving(
        (setup.get("endpoint") or {}).get("model", ""),
        setup.get("precision") or "",
        Accelerator.objects.filter(slug=slug).first(),
        pool.get("count") or 1,
        setup.get("replicas") or 1,
    )


def _serving_pool(setup: Mapping[str, Any]) -> Mapping[str, Any]:
    """The accelerators that made the tokens, as ``Deployment.serving_pool``."""
    pools: list[Mapping[str, Any]] = setup.get("pools") or []
    return next((pool for pool in pools if pool["name"] == DECODE), pools[0] if pools else {})


def _measured(run: Run, stage: StageResults) -> dict[str, float | None]:
    """What one copy of the model did; None where it was not measured."""
    replicas = max((run.setup or {}).get("replicas") or 1, 1)
    prompt, answer = stage.value("input_tokens"), stage.value("output_tokens")
    concurrency = stage.value("achieved_concurrency")
    several = len((run.setup or {}).get("pools") or []) > 1
    power = None if several else stage.value("power_w")  # that of all pools is no measure of one
    return {
        "tpot_ms": stage.value("tpot_ms", "p50"),
        "ttft_ms": stage.value("ttft_ms", "p50"),
        "prompt_tokens": prompt,
        "context": None if prompt is None or answer is None else prompt + answer / 2,
        "concurrency": None if concurrency is None else concurrency / replicas,
        "power_w": None if power is None else power / replicas,
    }
