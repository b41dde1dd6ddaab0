"""The power sampler keeps its promise: at most 1 % of a core at 20 readings a second of 8 GPUs."""

import time
from statistics import median

import pytest

from runners.load.records import read_spool
from runners.power.sampler import SPOOL_NAME, Sampler
from runners.power.samples import SCHEMA
from runners.spec import Power
from tests.services import nvml

GPUS, READINGS_PER_S = 8, 20
BUDGET = 0.01
#: A run of 3 s holds 60 readings and takes 0.65 to 0.75 % of an idle core: a third more may be added before it fails.
#: Neighbours on the machine only ever add to CPU time (cold caches, shared cores), so the best of a few runs is nearest
#: to the truth, and one within the budget proves that it can be kept.
RUNS, SECONDS = 4, 3.0
#: CPU time of ``burst`` on the core that the budget is meant for (docs/power.md). A core that is slower at that moment,
#: or shares its units with a busy neighbour, is slower at both, so the budget grows with it; it never shrinks.
BURST_MS = 0.95


@pytest.fixture
def out(tmp_path, monkeypatch):
    library = nvml.built(tmp_path)
    loads = "".join(f"square {gpu} 100000 400000 0.7\n" for gpu in range(GPUS))
    (library / "gpus").write_text(f"gpus {GPUS}\n{loads}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("NVML_SCRIPT", str(library / "gpus"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def burst():
    """CPU time of a fixed piece of work, ms."""
    begun_ns = time.thread_time_ns()
    sum(number * number for number in range(20_000))
    return (time.thread_time_ns() - begun_ns) / 1e6


def cost(out):
    """(share of a core at 20 readings a second, how much slower than meant the core was meanwhile)."""
    sampler = Sampler.start(Power(source="nvml"), out)
    bursts, end_s = [], time.monotonic() + SECONDS
    while time.monotonic() < end_s:
        time.sleep(0.1)
        bursts.append(burst())
    sampler.stop()
    t_ns = read_spool(out / SPOOL_NAME, SCHEMA)["t_ns"].to_numpy()
    per_s = len(t_ns) / GPUS / (t_ns[-1] - t_ns[0]) * 1e9
    return sampler.describe()["sampler_cpu_share"] * READINGS_PER_S / per_s, max(1.0, median(bursts) / BURST_MS)


def test_eight_gpus_at_twenty_hertz_cost_at_most_a_hundredth_of_a_core(out):
    found = []
    for _ in range(RUNS):
        share, slower = cost(out)
        found.append(share / slower)
        if found[-1] <= BUDGET:
            break
    assert min(found) <= BUDGET, f"shares of a core, best of {RUNS}: {[f'{share:.2%}' for share in found]}"
