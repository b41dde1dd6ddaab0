"""Run by the fixture ``play``: the real NVML binding and source on the scripted library, at the time of its script.

Each line of standard input asks for one recording; its rows go to a file, the source's account to standard output.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

import pyarrow as pa

from runners.power.samples import SCHEMA
from runners.power.sources import describe
from runners.power.sources.nvml import NvmlSource

LOOK_NS = 100_000


class Clock:
    """Time that passes by being looked at, and that the library is told."""

    def __init__(self, now_ns):
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self.set(now_ns)

    def set(self, now_ns):
        self.now_ns = now_ns
        self._library.fake_nvml_at(ctypes.c_longlong(now_ns))

    def __call__(self):
        self.set(self.now_ns + LOOK_NS)
        return self.now_ns


def record(asked):
    Path(os.environ["NVML_SCRIPT"]).write_text(asked["script"])
    clock = Clock(asked["start_ns"])
    source = NvmlSource({}, clock)
    rows, due_ns = [], clock.now_ns
    for late_ns in asked["late_ns"]:
        clock.set(max(clock.now_ns, due_ns + late_ns))
        rows += source.read()
        due_ns += int(source.period_ms * 1e6)
    with pa.OSFile(asked["out"], "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
    account = describe([source])
    source.close()
    return account


for line in sys.stdin:
    print(json.dumps(record(json.loads(line))), flush=True)
