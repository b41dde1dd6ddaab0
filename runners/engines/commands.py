"""From a recipe to the command line that starts its engine."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from runners.engines import derived, vllm
from runners.engines.packaged import MODEL_NAME, model_path
from runners.engines.recipe import ADAPTERS_OPTION, DRAFT_OPTION, Engine, Recipe, SpecError

#: What an engine gets of this process's environment: never the application's own secrets.
_INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME",
    "HIP_VISIBLE_DEVICES", "HF_HOME", "HF_TOKEN", "HF_ENDPOINT", "XDG_CACHE_HOME", "http_proxy", "https_proxy",
    "no_proxy",
)  # fmt: skip
#: Where files and vLLM are: what a router needs to start its engines.
_PLACES = ("VAR_DIR", "VLLM_PYTHON")
_ROOT = Path(__file__).resolve().parents[2]
_LOOK_S = 0.2

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """``environment``: what is added to what every engine inherits. ``files``: checksums of model files that were made
    here, as ``sha256sum`` writes them.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    port: int
    version: str = ""
    files: tuple[str, ...] = field(default=())

    def environment_of_process(self) -> dict[str, str]:
        return {name: os.environ[name] for name in _INHERITED if name in os.environ} | self.environment


def plan(recipe: Recipe, host: str, port: int, tell: Tell) -> Plan:
    """Raises SpecError for what this machine lacks; ``tell`` hears what is made ready meanwhile."""
    return _PLANS[recipe.engine](recipe, host, port, tell)


def _llamacpp(recipe: Recipe, host: str, port: int, tell: Tell) -> Plan:
    options, files = dict(recipe.options), _Files(tell)
    if DRAFT_OPTION in options:
        options[DRAFT_OPTION] = files.gguf(options[DRAFT_OPTION], f"recipe.options.{DRAFT_OPTION}")
    asked = {
        "model": files.gguf(recipe.model or MODEL_NAME, "recipe.model"),
        "alias": recipe.served_name,
        "host": host,
        "port": port,
        "threads": recipe.threads or len(recipe.cores) or os.cpu_count() or 1,
        "options": options,
    }
    # Spinning OpenMP threads starve every other process on the machine, the load generator first.
    environment = {"OMP_WAIT_POLICY": "passive"} | recipe.environment
    command = (sys.executable, "-m", "runners.engines.llamacpp", json.dumps(asked))
    return Plan(command, environment, port, f"xllamacpp {version('xllamacpp')}", files.sums)


def _vllm(recipe: Recipe, host: str, port: int, tell: Tell) -> Plan:
    files, installed = _Files(tell), vllm.installed()
    model = files.folder(recipe.model, "recipe.model")
    options: dict[str, Any] = {"served-model-name": recipe.served_name, **recipe.options}
    drafting = options.get("speculative-config", {})
    if isinstance(drafting.get("model"), str):
        draft = files.folder(drafting["model"], "recipe.options.speculative-config.model")
        options["speculative-config"] = drafting | {"model": draft}
    if ADAPTERS_OPTION in options:
        options[ADAPTERS_OPTION] = [files.adapter(named) for named in options[ADAPTERS_OPTION]]
    words = ("--model", model, "--host", host, "--port", str(port), *vllm.flags(options))
    environment = vllm.environment(installed, recipe.cores, options, local=Path(model).is_dir()) | recipe.environment
    return Plan((*vllm.server(), *words), environment, port, installed.version, files.sums)


def _command(recipe: Recipe, host: str, port: int, tell: Tell) -> Plan:
    words = shlex.split(recipe.command)
    for place, value in (("{port}", str(port)), ("{host}", host), ("{model}", recipe.model)):
        words = [word.replace(place, value) for word in words]
    return Plan(tuple(words), dict(recipe.environment), port)


def _router(recipe: Recipe, host: str, port: int, tell: Tell) -> Plan:
    """Its process starts the engines; here their files are made, and what they lack is said."""
    engines = [plan(upstream, host, 0, tell) for upstream in recipe.upstreams]
    environment = {name: os.environ[name] for name in _PLACES if name in os.environ}
    command = (
        sys.executable, "-m", "runners.engines.router",
        json.dumps({"host": host, "port": port, "options": recipe.options}),
    )  # fmt: skip
    sums = dict.fromkeys(line for engine in engines for line in engine.files)
    versions = dict.fromkeys(engine.version for engine in engines if engine.version)
    return Plan(command, environment, port, ", ".join(versions), tuple(sums))


_PLANS = {Engine.LLAMA_CPP: _llamacpp, Engine.VLLM: _vllm, Engine.COMMAND: _command, Engine.ROUTER: _router}


class _Files:
    """The model files of one recipe, made where need be."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.sums: tuple[str, ...] = ()

    def gguf(self, model: str, name: str) -> str:
        """The path of a GGUF file. Raises SpecError."""
        asked = derived.Derived.named(model, name)
        if asked is not None:
            return str(model_path() if asked.is_source else self._made(asked, model))
        path = Path(model)
        if not path.is_file():
            raise SpecError(f"{name}: there is no file {model} on this machine; give a GGUF file or {MODEL_NAME}")
        return str(path.resolve())

    def folder(self, model: str, name: str) -> str:
        """A folder where there is one; else a name that the engine fetches itself. Raises SpecError."""
        asked = derived.Derived.named(model, name)
        if asked is not None:
            return str(self._made(asked, model))
        return str(Path(model).resolve()) if Path(model).is_dir() else model

    def adapter(self, named: str) -> str:
        """As vLLM takes it: name=folder, or an object as JSON, as it is. Raises SpecError."""
        if named.startswith("{"):
            return named
        name, _, folder = named.partition("=")
        return f"{name}={self.folder(folder, f'recipe.options.{ADAPTERS_OPTION}')}"

    def _made(self, asked: derived.Derived, model: str) -> Path:
        if not derived.is_whole(asked):
            _make(model, self._tell)
        self.sums += tuple(derived.sums(asked).splitlines())
        return derived.path_of(asked)


def _make(model: str, tell: Tell) -> None:
    """In a process of its own: the library that does it ends the process where it fails."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "runners", "model", model]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as making:
        try:
            while making.poll() is None:
                tell(f"making {model}, {time.monotonic() - began_s:.0f} s")
                time.sleep(_LOOK_S)
        finally:
            making.kill()
        assert making.stderr  # noqa: S101
        said = making.stderr.read().strip()
    if making.returncode:
        raise SpecError(f"{model} could not be made: {said.splitlines()[-1] if said else making.returncode}")
