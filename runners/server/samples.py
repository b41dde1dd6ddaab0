"""The rows of ``server.arrow`` and ``server.parquet``: one per series and scrape."""

from typing import Any

import pyarrow as pa

Row = dict[str, Any]

SCHEMA = pa.schema(
    [
        ("t_ns", pa.int64()),  # CLOCK_MONOTONIC of the load host, the middle of the scrape
        ("metric", pa.string()),  # a key of runners/server/metrics.py; of a histogram with _bucket or _sum
        ("labels", pa.string()),  # as on the page, such as engine="0",le="0.5"
        ("value", pa.float64()),
    ]
)
