"""From a recipe to the command line that starts its engine."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from runners.engines.packaged import MODEL_NAME, model_path
from runners.engines.recipe import Engine, Recipe, SpecError

#: What an engine gets of this process's environment: never the application's own secrets.
_INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME",
    "HIP_VISIBLE_DEVICES", "HF_HOME", "HF_TOKEN", "HF_ENDPOINT", "XDG_CACHE_HOME", "http_proxy", "https_proxy",
    "no_proxy",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """``environment``: what is added to what every engine inherits."""

    command: tuple[str, ...]
    environment: dict[str, str]
    port: int
    version: str = ""

    def environment_of_process(self) -> dict[str, str]:
        return {name: os.environ[name] for name in _INHERITED if name in os.environ} | self.environment


def plan(recipe: Recipe, host: str, port: int, tell: Callable[[str], None]) -> Plan:
    """Raises SpecError for what this machine lacks; ``tell`` hears what is made ready meanwhile."""
    return _PLANS[recipe.engine](recipe, host, port, tell)


def _llamacpp(recipe: Recipe, host: str, port: int, tell: Callable[[str], None]) -> Plan:
    options = dict(recipe.options)
    draft = "speculative.draft.mparams.path"
    if draft in options:
        options[draft] = str(_gguf(options[draft], "recipe.options." + draft))
    asked = {
        "model": str(_gguf(recipe.model or MODEL_NAME, "recipe.model")),
        "alias": recipe.served_name,
        "host": host,
        "port": port,
        "threads": recipe.threads or len(recipe.cores) or os.cpu_count() or 1,
        "options": options,
    }
    # Spinning OpenMP threads starve every other process on the machine, the load generator first.
    environment = {"OMP_WAIT_POLICY": "passive"} | recipe.environment
    command = (sys.executable, "-m", "runners.engines.llamacpp", json.dumps(asked))
    return Plan(command, environment, port, f"xllamacpp {version('xllamacpp')}")


def _gguf(model: str, field: str) -> Path:
    if model == MODEL_NAME:
        return model_path()
    path = Path(model)
    if not path.is_file():
        raise SpecError(f"{field}: there is no file {model} on this machine; give a GGUF file or {MODEL_NAME}")
    return path.resolve()


def _vllm(recipe: Recipe, host: str, port: int, tell: Callable[[str], None]) -> Plan:
    raise SpecError("recipe.engine: vLLM is not installed")


def _command(recipe: Recipe, host: str, port: int, tell: Callable[[str], None]) -> Plan:
    words = shlex.split(recipe.command)
    values = {"{port}": str(port), "{host}": host, "{model}": recipe.model}
    for place, value in values.items():
        words = [word.replace(place, value) for word in words]
    return Plan(tuple(words), dict(recipe.environment), port)


_PLANS = {Engine.LLAMA_CPP: _llamacpp, Engine.VLLM: _vllm, Engine.COMMAND: _command}
