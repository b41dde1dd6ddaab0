"""How NVIDIA's power sensors behave, by generation, and how far single cards were found off.

Sources: nvml.h; "Part-time Power Measurements: nvidia-smi's Lack of Attention" (arXiv 2312.02741) and its data,
github.com/JimZeyuYang/GPU_Power_Benchmark (4b5c944, Overall_Results.xlsx).
"""

from dataclasses import dataclass

from runners.power.devices import Note


@dataclass(frozen=True)
class Sensor:
    """``update_ms``: period of the sensor and of the energy counter. The windows say over how much time each reading
    is a mean: ``mean_ms`` field 185, ``instant_ms`` field 186, ``legacy_ms`` nvmlDeviceGetPowerUsage. ``integrate``
    names the column that stands for all of the time, for generations whose other field looks at a part only.
    """

    generation: str
    update_ms: float
    legacy_ms: float
    instant_ms: float = 100.0
    mean_ms: float = 1000.0
    integrate: str = "power_instant_mw"
    known: bool = True


_BY_ARCHITECTURE: dict[int, Sensor] = {
    4: Sensor("Pascal", 20, legacy_ms=10, instant_ms=10),
    5: Sensor("Volta", 20, legacy_ms=10, instant_ms=10),
    6: Sensor("Turing", 100, legacy_ms=100),
    7: Sensor("Ampere", 100, legacy_ms=1000),
    8: Sensor("Ada", 100, legacy_ms=1000),
    9: Sensor("Hopper", 100, legacy_ms=1000, instant_ms=25, integrate="power_mw"),
    10: Sensor("Blackwell", 100, legacy_ms=1000, instant_ms=25, integrate="power_mw", known=False),
}
_GA100 = Sensor("Ampere GA100", 100, legacy_ms=25, instant_ms=25)
_GA100_NAMES = ("A100", "A800", "A30")
_UNKNOWN = Sensor("unknown generation", 100, legacy_ms=1000, integrate="power_mw", known=False)


def grace_name(name: str) -> bool:
    """Whether a board of that name shares a module with a Grace CPU."""
    return any(word in name for word in ("GH200", "GB200", "GB300"))


def sensor(architecture: int, name: str) -> Sensor:
    """``architecture``: NVML's number. GA100 shares Ampere's number, so it is told by the name."""
    words = name.replace("-", " ").split()
    if architecture == 7 and any(word in _GA100_NAMES for word in words):
        return _GA100
    return _BY_ARCHITECTURE.get(architecture, _UNKNOWN)


def sensor_notes(name: str, sensor: Sensor) -> list[Note]:
    """What people must know before they trust this sensor."""
    if not sensor.known:
        return [
            Note(
                "sensor_uncharacterised",
                f"{name}: how its power sensor ({sensor.generation}) averages is not published; an update every "
                f"{sensor.update_ms:.0f} ms is assumed. Compare with an external meter before you rely on it.",
            )
        ]
    if sensor.instant_ms < sensor.update_ms and sensor.integrate == "power_instant_mw":
        return [
            Note(
                "sensor_part_time",
                f"{name}: its sensor looks at {sensor.instant_ms:.0f} of every {sensor.update_ms:.0f} ms. Measure for "
                "30 s or more, so that what it misses averages out.",
            )
        ]
    return []


#: Lowest and highest published error of the energy reading (reading / truth - 1), by words of the card's name.
_CARD_ERRORS: dict[tuple[str, ...], tuple[float, float]] = {
    ("A100", "PCIE"): (-0.073, -0.043),
    ("RTX", "3090"): (-0.0555, -0.019),
    ("RTX", "4090"): (-0.052, -0.052),
    ("2080", "TI"): (-0.079, -0.079),
    ("2060", "SUPER"): (0.127, 0.132),
    ("3070", "TI"): (-0.036, -0.036),
    ("RTX", "A5000"): (-0.07, -0.07),
    ("1080", "TI"): (-0.0036, -0.0036),
    ("P100",): (0.007, 0.007),
    ("M40",): (-0.014, -0.014),
    ("K620",): (-0.41, -0.41),
}
_DEFAULT_ERROR = 0.05


def gain(name: str) -> tuple[float, float, str]:
    """Factors on a reading between which the truth is taken to lie, and where they come from."""
    words = set(name.upper().replace("-", " ").split())
    for card, (least, most) in _CARD_ERRORS.items():
        if words.issuperset(card):
            low, high = 1 / (1 + max(0.0, most)), 1 / (1 + min(0.0, least))
            return low, high, f"this model of card was measured to read {_percent(least, most)} off (arXiv 2312.02741)"
    return 1 - _DEFAULT_ERROR, 1 + _DEFAULT_ERROR, "±5 % board gain error is assumed: this card was not characterised"


def _percent(least: float, most: float) -> str:
    return f"{most:+.1%}" if least == most else f"{least:+.1%} to {most:+.1%}"
