"""What power sampling costs: ``python -m tests.perf.sampler [SECONDS]``.

The real sampler process and NVML binding read scripted GPUs, which answer at once: a real driver takes longer. Prints
the share of one CPU that sampling takes (user + system time), for 1, 2 and 8 GPUs.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from runners.power.sampler import Sampler
from runners.spec import Power
from tests.services import nvml


def share(library: Path, gpus: int, seconds: float) -> tuple[float, float]:
    """(share of one CPU, readings of each GPU per second)."""
    (library / "gpus").write_text(f"gpus {gpus}\n" + "".join(f"square {i} 100000 400000 0.7\n" for i in range(gpus)))
    with tempfile.TemporaryDirectory() as folder:
        sampler = Sampler.start(Power(source="nvml"), Path(folder))
        time.sleep(seconds)
        sampler.stop()
        found = sampler.describe()
    return found["sampler_cpu_share"], 1000 / found["period_ms"]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with tempfile.TemporaryDirectory() as folder:
        library = nvml.built(Path(folder))
        os.environ |= {"LD_LIBRARY_PATH": folder, "NVML_SCRIPT": str(library / "gpus")}
        for gpus in (1, 2, 8):
            cpu, per_s = share(library, gpus, seconds)
            print(f"{gpus} GPUs at {per_s:.1f} readings/s each: {cpu:.2%} of one CPU")


if __name__ == "__main__":
    main()
