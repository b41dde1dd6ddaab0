"""The rows of ``power.arrow`` and ``power.parquet``: one per device and tick. Missing is null, never 0."""

from typing import Any

import pyarrow as pa

Row = dict[str, Any]

SCHEMA = pa.schema(
    [
        ("t_ns", pa.int64()),  # CLOCK_MONOTONIC of the host that sampled
        ("device", pa.string()),  # id of a device in power.json
        ("layer", pa.string()),  # accelerator | cpu | dram | host
        ("power_mw", pa.float64()),  # NVML: the mean field (185) or PowerUsage; else the mean since the row before
        ("power_instant_mw", pa.float64()),  # NVML field 186
        ("energy_mj", pa.float64()),  # a running counter as the instrument tells it, wraps included
        ("sensor_t_us", pa.int64()),  # the instrument's own stamp where it has one, microseconds since 1970
        ("temperature_c", pa.float64()),
        ("utilisation_pct", pa.float64()),
        ("clock_mhz", pa.float64()),
        ("memory_clock_mhz", pa.float64()),
        ("power_limit_mw", pa.float64()),
        ("throttle_reasons", pa.int64()),  # NVML's bits for why the clocks are held back now
        ("power_throttled_ms", pa.float64()),  # running counters of the time for which power or heat held them back
        ("thermal_throttled_ms", pa.float64()),
        ("other_processes", pa.int64()),  # compute processes on the GPU that were not there when sampling began
        ("listed_gpus", pa.int64()),  # how many GPUs the driver lists
        ("reason", pa.string()),  # set on the last row of a device that was lost: why nothing follows
    ]
)
