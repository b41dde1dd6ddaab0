"""Reading the small files of /sys."""

from pathlib import Path

HWMON = Path("/sys/class/hwmon")


def text(path: Path) -> str:
    """Empty where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def number(path: Path) -> float | None:
    """None where there is none."""
    try:
        return float(int(path.read_text()))
    except (OSError, ValueError):
        return None


def monitors(hwmon: Path, names: tuple[str, ...]) -> list[Path]:
    """Folders of the hardware monitors of these drivers, in the kernel's order."""
    folders = sorted(hwmon.glob("hwmon*"), key=lambda path: (len(path.name), path.name))
    return [path for path in folders if text(path / "name") in names]


def unreadable(path: Path) -> str:
    """Why a file that is there cannot be read, in words; empty when it can be."""
    try:
        path.read_text()
    except PermissionError:
        return f"{path} is readable by root only: sudo chmod a+r {path} (until the next boot)."
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}."
    return ""
