"""Facts about the host that measures: no secrets, and never an error; what cannot be known is null."""

import os
import platform
import socket
from pathlib import Path
from typing import Any

import pynvml

from runners.power.sources.estimate import cpu_name

_UNITS = ("avx", "amx", "asimd", "sve", "sme", "bf16", "i8mm")


def environment() -> dict[str, Any]:
    """The "environment" account of summary.json (docs/result-files.md)."""
    accelerators, driver = _nvidia()
    return {
        "host": socket.gethostname(),
        "os": _os_name(),
        "kernel": platform.release(),
        "cpu": cpu_name(),
        "cpu_count": os.cpu_count(),
        "cpu_units": _cpu_units(),
        "memory_gb": _memory_gb(),
        "python": platform.python_version(),
        "accelerators": accelerators,
        "driver": driver,
    }


def _cpu_units(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """The units that decide how fast an engine computes on this CPU; one name covers CPUs with and without them."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, flags = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return " ".join(flag for flag in flags.split() if flag.startswith(_UNITS)) or None
    return None


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _memory_gb(meminfo: Path = Path("/proc/meminfo")) -> float | None:
    """Total memory in units of 10^9 bytes."""
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemTotal:"):
                return round(int(line.split()[1]) * 1024 / 1e9, 1)
    except (OSError, ValueError, IndexError):
        pass
    return None


def _nvidia() -> tuple[list[dict[str, Any]], str | None]:
    """All NVIDIA boards of the host and the driver's version; none where NVML does not answer."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return [], None
    try:
        boards = [_board(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [board for board in boards if board], str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return [], None
    finally:
        pynvml.nvmlShutdown()


def _board(index: int) -> dict[str, Any] | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        name, uuid = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle)
    except pynvml.NVMLError:
        return None
    try:
        memory_gb = round(pynvml.nvmlDeviceGetMemoryInfo(handle).total / 1e9, 1)
    except pynvml.NVMLError:
        memory_gb = None
    return {"name": name, "uuid": uuid, "memory_gb": memory_gb}
