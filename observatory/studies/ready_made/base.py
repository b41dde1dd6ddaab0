"""What a ready-made study is: data, from which a study with its deployments is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction

from observatory.catalog.models import Deployment, Endpoint
from observatory.studies import design, questions
from observatory.studies.design import ArmPlan
from observatory.studies.measures import DesignError
from observatory.studies.models import Study

#: All engines that a worker starts share its machine: runs of them never overlap.
GROUP = "this machine"
#: A rented machine of this size; whoever knows better edits the deployment.
USD_PER_HOUR = Decimal("0.0850")

MODEL = "SmolLM2-135M-Instruct"

Json = Mapping[str, Any]


def llamacpp(model: str = MODEL, threads: int | None = None, **options: Any) -> Json:
    """The recipe of a llama.cpp. In the name of an option ``__`` stands for a dot."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    return {"engine": "llama.cpp", "model": model, "options": named} | ({"threads": threads} if threads else {})


def vllm(model: str = f"{MODEL}:HF", cores: tuple[int, ...] = (), **options: Any) -> Json:
    """The recipe of a vLLM that starts without compiling. In the name of an option ``_`` stands for a dash."""
    named = {"enforce-eager": True} | {name.replace("_", "-"): value for name, value in options.items()}
    return {"engine": "vllm", "model": model, "options": named} | ({"cores": list(cores)} if cores else {})


def router(policy: str, *upstreams: Json, **options: Any) -> Json:
    """The recipe of a router with these engines behind it; of two models the small one first."""
    return {"engine": "router", "options": {"policy": policy, **options, "upstreams": list(upstreams)}}


def _settings(name: str, value: object) -> list[str]:
    """Such as "source.kind=prefixes", "source.groups=1"."""
    if isinstance(value, dict):
        return [words for part, inner in value.items() for words in _settings(f"{name}.{part}", inner)]
    if isinstance(value, list | tuple) and all(isinstance(item, dict) for item in value):
        return [words for item in value for words in _settings(name, item)]
    if isinstance(value, bool):
        return [f"{name}={'on' if value else 'off'}"]
    return [f"{name}={','.join(map(str, value)) if isinstance(value, list | tuple) else value}"]


def _engine_words(recipe: Json) -> str:
    chosen = {name: value for name, value in recipe["options"].items() if name != "upstreams"}
    options = [words for name, value in chosen.items() for words in _settings(name, value)]
    bound = [words for name in ("threads", "cores") if name in recipe for words in _settings(name, recipe[name])]
    behind = [f"before {_engine_words(upstream)}" for upstream in recipe["options"].get("upstreams", [])]
    return " ".join([recipe["engine"], *filter(None, [recipe.get("model")]), *bound, *options, *behind])


@dataclass(frozen=True)
class Sketch:
    """An arm whose engine the observatory starts by the ``recipe`` of an endpoint. Equal recipes are one deployment."""

    name: str
    recipe: Json
    spec: Json = field(default_factory=dict)
    theory: Json = field(default_factory=dict)
    x: float | None = None
    precision: str = "q4_1"

    @property
    def words(self) -> str:
        """Such as "llama.cpp SmolLM2-135M-Instruct n_parallel=1; load.levels=8"."""
        asked = [words for part, fields in self.spec.items() for words in _settings(part, fields)]
        return "; ".join([_engine_words(self.recipe), *asked])


@dataclass(frozen=True)
class Short:
    """What is left of a study where it must only show that it runs; ``arms`` by name, none: all. ``questions``: so many
    are put where the study puts any.
    """

    spec: Json
    repeats: int = 2
    arms: tuple[str, ...] = ()
    questions: int = 12


@dataclass(frozen=True)
class ReadyMade:
    """``limits``: what it cannot show on a small machine. ``smallest``: the smallest effect of interest, percent.
    ``quality``: what is asked where the technique may change answers; empty: nothing.
    """

    slug: str
    number: int
    title: str
    question: str
    arms: tuple[Sketch, ...]
    spec: Json
    short: Short
    measures: tuple[Json, ...]
    look_for: str
    limits: str
    prediction: Json = field(default_factory=dict)
    quality: Json = field(default_factory=dict)
    factor: str = ""
    repeats: int = 5
    smallest: float = 5.0
    order: str = Study.Order.ABBA.value

    @property
    def engines(self) -> frozenset[str]:
        """What it takes to carry it out."""
        recipes = [arm.recipe for arm in self.arms]
        behind = [upstream for recipe in recipes for upstream in recipe["options"].get("upstreams", [])]
        return frozenset(recipe["engine"] for recipe in (*recipes, *behind))

    def shortened(self) -> "ReadyMade":
        """With fewer requests and repeats: it shows that everything works, and decides nothing."""
        arms = tuple(arm for arm in self.arms if not self.short.arms or arm.name in self.short.arms)
        quality = {**self.quality, "questions": self.short.questions} if self.quality else {}
        spec = laid_over(self.spec, self.short.spec)
        return replace(self, arms=arms, spec=spec, quality=quality, repeats=self.short.repeats)

    def asking(self, asks: bool | None) -> "ReadyMade":
        """With questions, or without them; None: as it is."""
        if asks is None:
            return self
        return replace(self, quality=(self.quality or questions.BASIC) if asks else {})


def laid_over(spec: Json, changes: Json) -> Json:
    """``changes`` over the fields of each section."""
    return {name: {**spec.get(name, {}), **changes.get(name, {})} for name in {**spec, **changes}}


def make(ready: ReadyMade, name: str, user: User | None, *, repeats: int | None = None) -> Study:
    """A study of it, with the deployments that it needs. Raises DesignError."""
    study = Study(
        name=name,
        question=ready.question,
        template=ready.slug,
        spec=dict(ready.spec),
        measures=[dict(measure) for measure in ready.measures],
        smallest_effect_percent=ready.smallest,
        prediction=dict(ready.prediction),
        quality=dict(ready.quality),
        factor=ready.factor,
        repeats=repeats or ready.repeats,
        order=ready.order,
        look_for=ready.look_for,
        limits=ready.limits,
        created_by=user,
    )
    with transaction.atomic():
        plans = [ArmPlan(arm.name, _deployment(ready, arm, user), arm.spec, arm.theory, arm.x) for arm in ready.arms]
        return design.create(study, plans)


def _deployment(ready: ReadyMade, arm: Sketch, user: User | None) -> Deployment:
    """The deployment whose engine is started by this recipe; a new one is named after the arm."""
    wanted = Endpoint(name=_free_name(f"{ready.title}: {arm.name}"), recipe=dict(arm.recipe), created_by=user)
    try:
        wanted.full_clean()
    except ValidationError as error:
        raise DesignError("arms", f"{arm.name}: {' '.join(error.messages)}") from None
    known = next((item for item in Endpoint.objects.exclude(recipe={}) if item.recipe == wanted.recipe), None)
    if known is not None and (found := known.deployments.filter(precision=arm.precision).first()):
        return found
    wanted.save()
    return Deployment.objects.create(
        endpoint=wanted,
        name=wanted.name,
        engine=str(arm.recipe["engine"]),
        precision=arm.precision,
        runs_on_cpu=True,
        accelerator_group=GROUP,
        usd_per_hour=USD_PER_HOUR,
        price_source="a small rented machine; edit the deployment to give your own",
    )


def _free_name(name: str) -> str:
    taken = set(Endpoint.objects.values_list("name", flat=True)) | set(
        Deployment.objects.values_list("name", flat=True)
    )
    tries = (name[:100], *(f"{name[:95]} #{number}" for number in range(2, 10_000)))
    return next(found for found in tries if found not in taken)
