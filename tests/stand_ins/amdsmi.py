"""Plays AMD's own Python module, with the functions and answers of its documentation (ROCm 6.4); ``GPUS`` is the
machine. A function that a GPU does not support raises, and a value that it has not is "N/A".
"""

import time
from dataclasses import dataclass, field

STARTED_NS = time.monotonic_ns()


class AmdSmiException(Exception):
    pass


class AmdSmiLibraryException(AmdSmiException):
    pass


@dataclass
class Gpu:
    uuid: str
    watts: float = 250.0
    unsupported: set[str] = field(default_factory=set)
    steps: list[tuple[int, int]] = field(default_factory=list)
    power_cap: object = 750_000_000
    resolution: float = 15.259


GPUS: list[Gpu] = []
DRIVER = True


def amdsmi_init(flag: int = 2) -> None:
    if not DRIVER:
        raise AmdSmiLibraryException("AMDSMI_STATUS_DRIVER_NOT_LOADED")


def amdsmi_shut_down() -> None:
    pass


def amdsmi_get_processor_handles() -> list[Gpu]:
    return list(GPUS)


def _supported(gpu: Gpu, what: str) -> None:
    if what in gpu.unsupported:
        raise AmdSmiLibraryException("AMDSMI_STATUS_NOT_SUPPORTED")


def amdsmi_get_gpu_device_uuid(gpu: Gpu) -> str:
    return gpu.uuid


def amdsmi_get_gpu_device_bdf(gpu: Gpu) -> str:
    return "0000:05:00.0"


def amdsmi_get_gpu_asic_info(gpu: Gpu) -> dict[str, object]:
    return {"market_name": "AMD Instinct MI300X", "vendor_id": 0x1002, "asic_serial": "0x1"}


def amdsmi_get_energy_count(gpu: Gpu) -> dict[str, object]:
    _supported(gpu, "energy")
    if gpu.steps:
        steps, stamp_ns = gpu.steps.pop(0) if len(gpu.steps) > 1 else gpu.steps[0]
    else:
        stamp_ns = time.monotonic_ns()
        steps = 1_000_000 + int(gpu.watts * (stamp_ns - STARTED_NS) / 1e3 / gpu.resolution)
    return {"power": steps, "energy_accumulator": steps, "counter_resolution": gpu.resolution, "timestamp": stamp_ns}


def amdsmi_get_power_info(gpu: Gpu) -> dict[str, object]:
    _supported(gpu, "power")
    return {"socket_power": gpu.watts, "current_socket_power": gpu.watts, "average_socket_power": "N/A"}


def amdsmi_get_power_cap_info(gpu: Gpu) -> dict[str, object]:
    _supported(gpu, "cap")
    return {"power_cap": gpu.power_cap, "default_power_cap": 750_000_000}


def amdsmi_get_gpu_activity(gpu: Gpu) -> dict[str, object]:
    _supported(gpu, "activity")
    return {"gfx_activity": 97, "umc_activity": "N/A"}
