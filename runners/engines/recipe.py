"""What engine to start and how: a frozen dataclass, JSON in and out. A recipe holds no secret."""

import dataclasses
import json
import re
import shlex
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from runners.engines import llamacpp_options, options, vllm_options
from runners.engines.derived import ADAPTER, HF, Derived
from runners.engines.packaged import MODEL_NAME
from runners.router import options as router_options
from runners.router.settings import complaint
from runners.strict_json import SpecError, build

__all__ = ["OPTIONS", "Engine", "Recipe", "SpecError"]


class Engine(StrEnum):
    LLAMA_CPP = "llama.cpp"
    VLLM = "vllm"
    COMMAND = "command"
    ROUTER = "router"


#: What each engine may be told.
OPTIONS = {
    Engine.LLAMA_CPP: llamacpp_options.OPTIONS,
    Engine.VLLM: vllm_options.OPTIONS,
    Engine.COMMAND: (),
    Engine.ROUTER: router_options.OPTIONS,
}
#: Variables that change how an engine computes, and none that make a program load other code.
_VARIABLES = re.compile(r"(OMP|KMP|GOMP|MKL|DNNL|OPENBLAS|GGML|LLAMA|VLLM|TORCH|CUDA|NCCL|HF|TOKENIZERS)_[A-Z0-9_]+")
DRAFT_OPTION = "speculative.draft.mparams.path"
ADAPTERS_OPTION = "lora-modules"
MOST_READY_S = 3600.0
MOST_CHARACTERS = 20_000


@dataclass(frozen=True)
class Recipe:
    """``model``: a path, a name that the engine can fetch, or the packaged model (docs/engines.md), which is what
    llama.cpp takes where none is named. ``options`` in the engine's own terms. ``cores``: those that it is bound to;
    none: all. ``threads``: of llama.cpp; else as many as cores. ``command``: of the engine "command", with {port},
    {host} and {model} in it. ``ready_s``: how long it may take to start.
    """

    engine: Engine
    model: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    threads: int | None = None
    cores: tuple[int, ...] = ()
    command: str = ""
    ready_s: float = 300.0

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Raises SpecError that names the field and the fix."""
        recipe: Self = build(cls, data, "recipe")
        recipe.check()
        return recipe

    def to_json(self) -> dict[str, Any]:
        """Only what is not the default: an empty field says nothing."""
        found = {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if getattr(self, item.name)}
        if self.ready_s == Recipe.ready_s:
            del found["ready_s"]
        return found | {"engine": self.engine.value} | ({"cores": list(self.cores)} if self.cores else {})

    def check(self) -> None:
        """Raises SpecError that names the field and the fix."""
        self._check_text()
        options.check(OPTIONS[self.engine], self.options, "recipe.options")
        self._check_models()
        if self.threads is not None and (self.threads < 1 or self.engine is not Engine.LLAMA_CPP):
            raise SpecError("recipe.threads: 1 or more, and only for llama.cpp; bind other engines with cores")
        if any(core < 0 for core in self.cores) or len(set(self.cores)) < len(self.cores):
            raise SpecError("recipe.cores: each core's number once, counted from 0")
        if not 0 < self.ready_s <= MOST_READY_S:
            raise SpecError(f"recipe.ready_s: more than 0 and at most {MOST_READY_S:g} seconds")
        self._check_command()
        self._check_environment()
        if self.engine is Engine.ROUTER:
            self._check_router()

    def _check_text(self) -> None:
        """A database must take it."""
        try:
            text = json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False)
            text.encode()
        except ValueError:
            raise SpecError("recipe: it holds text or a number that cannot be stored; type it anew") from None
        if "\\u0000" in text or len(text) > MOST_CHARACTERS:
            raise SpecError(f"recipe: at most {MOST_CHARACTERS} characters, none of them NUL")

    def _check_models(self) -> None:
        if self.engine is Engine.VLLM and not self.model:
            raise SpecError(f"recipe.model: say which model vLLM serves, such as a folder or {MODEL_NAME}:{HF}")
        if self.engine is Engine.COMMAND:
            return
        drafting = self.options.get("speculative-config", {}).get("model")
        named = {"model": self.model, f"options.{DRAFT_OPTION}": self.options.get(DRAFT_OPTION)}
        for name, model in (named | {"options.speculative-config.model": drafting}).items():
            asked = Derived.named(model, f"recipe.{name}") if isinstance(model, str) else None
            if asked is not None:
                self._check_model(asked, name)
        for adapter in self.options.get(ADAPTERS_OPTION, []):
            self._check_adapter(adapter)

    def _check_model(self, asked: Derived, name: str) -> None:
        if asked.is_adapter:
            fix = f"name it in {ADAPTERS_OPTION}, such as a={MODEL_NAME}:{ADAPTER}"
            raise SpecError(f"recipe.{name}: an adapter goes with a model; {fix}")
        if asked.is_head and name == "model":
            raise SpecError(f"recipe.model: {asked.form} guesses ahead of a model; name it in speculative-config")
        if asked.is_folder is not (self.engine is Engine.VLLM):
            fix = f"{MODEL_NAME}:{HF}" if self.engine is Engine.VLLM else f"{MODEL_NAME}:Q8_0"
            raise SpecError(f"recipe.{name}: {self.engine.value} does not read {asked.form}; write such as {fix}")

    def _check_adapter(self, named: str) -> None:
        """As vLLM has them: name=folder, or an object as JSON."""
        path = f"recipe.options.{ADAPTERS_OPTION}"
        if named.startswith("{"):
            return
        name, _, folder = named.partition("=")
        if not name or not folder:
            raise SpecError(f"{path}: {named!r} is no name=folder")
        asked = Derived.named(folder, path)
        if asked is not None and not asked.is_adapter:
            raise SpecError(f"{path}: {asked.form} is no adapter; write it as {name}={MODEL_NAME}:{ADAPTER}")

    def _check_router(self) -> None:
        if self.model or self.environment:
            field = "model" if self.model else "environment"
            raise SpecError(f"recipe.{field}: a router has none of its own; say it in each of the upstreams")
        path, upstreams = f"recipe.options.{router_options.UPSTREAMS}", self.options.get(router_options.UPSTREAMS, [])
        for index, upstream in enumerate(upstreams):
            if upstream.get("engine") == Engine.ROUTER:
                raise SpecError(f"{path}[{index}].engine: no router behind a router")
            try:
                Recipe.from_json(upstream)
            except SpecError as error:
                raise SpecError(f"{path}[{index}]{str(error).removeprefix('recipe')}") from None
        if found := complaint(router_options.settings_of(self.options), len(upstreams)):
            raise SpecError(f"{path}: {found}")

    def _check_command(self) -> None:
        if self.engine is not Engine.COMMAND:
            if self.command:
                raise SpecError('recipe.command: only for the engine "command"')
            return
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise SpecError(f"recipe.command: {error}") from None
        if not words or "{port}" not in self.command:
            raise SpecError(
                "recipe.command: write the command with {port} where the port goes, such as: serve --port {port}"
            )
        if "{model}" in self.command and not self.model:
            raise SpecError("recipe.model: the command has {model}; say which")

    def _check_environment(self) -> None:
        for name, value in self.environment.items():
            if "\0" in value or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise SpecError(f"recipe.environment.{name}: no name or value of a variable")
            if self.engine is not Engine.COMMAND and not _VARIABLES.fullmatch(name):
                raise SpecError(
                    f"recipe.environment.{name}: not one that steers {self.engine.value}; "
                    "names begin with OMP_, KMP_, MKL_, GGML_, LLAMA_, VLLM_, TORCH_, CUDA_, NCCL_ or HF_"
                )

    @property
    def upstreams(self) -> "tuple[Recipe, ...]":
        """Of the engines behind a router."""
        return tuple(map(Recipe.from_json, self.options.get(router_options.UPSTREAMS, [])))

    @property
    def served_name(self) -> str:
        """The model's name in requests; that of a router's first engine, which the router puts right for the others."""
        if self.engine is Engine.ROUTER:
            return self.upstreams[0].served_name
        named = self.options.get("served-model-name")
        if isinstance(named, str):
            return named
        if not self.model and self.engine is Engine.LLAMA_CPP:
            return MODEL_NAME
        return self.model.rstrip("/").rpartition("/")[2].removesuffix(".gguf")
