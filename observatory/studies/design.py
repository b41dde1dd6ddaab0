"""From a question to what each run is asked: checks a design, stores it, draws the order of its runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from django.db import IntegrityError, transaction

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment
from observatory.runs import spec
from observatory.studies import measures, prediction, questions
from observatory.studies.measures import DesignError
from observatory.studies.models import Arm, Study
from runners.spec import RunSpec, SpecError

MIN_ARMS, MAX_ARMS = 2, 12
MAX_REPEATS = 30

#: What a design may say; the rest follows from the deployment.
_SECTIONS: dict[str, tuple[str, ...] | None] = {
    "workload": None,
    "load": None,
    "slo": None,
    "power": None,
    "timeouts": None,
    "target": ("dialect", "extra_body"),
}

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class ArmPlan:
    """An arm before it is stored; the first of a design is the baseline."""

    name: str
    deployment: Deployment
    spec: Spec = field(default_factory=dict)
    theory: Mapping[str, Any] = field(default_factory=dict)
    x: float | None = None


def create(study: Study, arms: Sequence[ArmPlan]) -> Study:
    """Stores a new design, whole or not at all. Raises DesignError."""
    check(study, arms)
    try:
        with transaction.atomic():
            study.save()
            for index, plan in enumerate(arms):
                Arm.objects.create(
                    study=study,
                    index=index,
                    name=plan.name,
                    deployment=plan.deployment,
                    spec=plan.spec,
                    theory=plan.theory,
                    x=plan.x,
                    benchmark=_save(_benchmark(study, plan)),
                )
    except IntegrityError:
        raise DesignError("name", "There is a study, or a benchmark of one, of that name. Choose another.") from None
    return study


def check(study: Study, arms: Sequence[ArmPlan]) -> None:
    """Raises DesignError at the first part that could not be measured or judged."""
    if not MIN_ARMS <= len(arms) <= MAX_ARMS:
        raise DesignError("arms", f"A study has {MIN_ARMS} to {MAX_ARMS} arms; these are {len(arms)}.")
    names = [plan.name for plan in arms]
    if len(set(names)) < len(names) or not all(names):
        raise DesignError("arms", "Give each arm a name of its own.")
    if not 1 <= study.repeats <= MAX_REPEATS:
        raise DesignError("repeats", f"Between 1 and {MAX_REPEATS}; 5 is a fair start, below 3 nothing is decided.")
    if not 0 <= study.smallest_effect_percent <= 1000:
        raise DesignError("smallest_effect_percent", "Between 0 and 1000 percent.")
    measures.read(study.measures)
    prediction.check(study.prediction, [plan.theory for plan in arms])
    for plan in arms:
        _check_arm(study, plan)
    questions.check(study, arms)


def _check_arm(study: Study, plan: ArmPlan) -> None:
    asked = of_plan(study, plan)
    load = asked.load
    if len(load.levels) != 1 or load.repeats != 1 or load.search or asked.workload.input_sweep:
        words = "An arm has one load: one level, no search, no sweep, no repeats. The study repeats its arms itself."
        raise DesignError("arms", f"{plan.name}: {words}")


def of_plan(study: Study, plan: ArmPlan) -> RunSpec:
    """What the arm will be asked. Raises DesignError that names the arm and the field."""
    try:
        return _laid_over(spec.build(_benchmark(study, plan)), study.spec, plan.spec)
    except (SpecError, DesignError) as error:
        raise DesignError("arms", f"{plan.name}: {error}") from None


def asked_of(arm: Arm, repeat: int) -> RunSpec:
    """The specification of one run. Arms of one repeat draw the same lengths and times; each repeat draws anew.

    Raises SpecError where the deployment no longer allows it.
    """
    found = _laid_over(spec.build(arm.benchmark), arm.study.spec, arm.spec).to_json()
    found["workload"]["seed"] += repeat - 1
    return RunSpec.from_json(found)


def _laid_over(base: RunSpec, *specs: Spec) -> RunSpec:
    """Fields of later ones win; a field is taken whole, except the body that goes to the server."""
    found = base.to_json()
    for given in specs:
        for section, fields in given.items():
            body = {**found["target"]["extra_body"], **fields.get("extra_body", {})} if section == "target" else None
            found[section] = {**found[section], **fields} | ({} if body is None else {"extra_body": body})
    return RunSpec.from_json(found)


def _check_section(section: str, fields: Any) -> None:
    if section not in _SECTIONS:
        raise DesignError("spec", f"{section!r} is none of {', '.join(_SECTIONS)}.")
    if not isinstance(fields, dict):
        raise DesignError("spec", f"{section}: give its fields as an object.")
    allowed = _SECTIONS[section]
    for name in fields:
        if allowed is not None and name not in allowed:
            raise DesignError("spec", f"{section}.{name}: of {section} a study may set {' and '.join(allowed)} only.")


def _benchmark(study: Study, plan: ArmPlan) -> Benchmark:
    """The benchmark under which the arm's runs are listed. Raises DesignError."""
    for given in (study.spec, plan.spec):
        for section, fields in given.items():
            _check_section(section, fields)
    asked = {name: {**study.spec.get(name, {}), **plan.spec.get(name, {})} for name in _SECTIONS}
    return Benchmark(
        name=f"{study.name}: {plan.name}",
        deployment=plan.deployment,
        workload=asked["workload"],
        load=asked["load"],
        slo_ttft_ms=asked["slo"].get("ttft_ms"),
        slo_tpot_ms=asked["slo"].get("tpot_ms"),
        slo_e2e_ms=asked["slo"].get("e2e_ms"),
        power_source=asked["power"].get("source", "auto"),
        created_by=study.created_by,
    )


def _save(benchmark: Benchmark) -> Benchmark:
    benchmark.save()
    return benchmark


def turns(study: Study, arms: Sequence[Arm]) -> list[tuple[int, Arm]]:
    """(repeat, arm) in the order in which they run: each repeat holds every arm once."""
    found: list[tuple[int, Arm]] = []
    draws = Random(study.seed)
    for repeat in range(1, study.repeats + 1):
        row = list(arms) if repeat % 2 else list(reversed(arms))
        if study.order == Study.Order.RANDOM:
            row = draws.sample(list(arms), len(arms))
        found += [(repeat, arm) for arm in row]
    return found
