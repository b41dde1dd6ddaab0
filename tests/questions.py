"""Changing what a benchmark asks by the names of the specification, wherever they belong."""

from dataclasses import fields
from typing import Any

from observatory.benchmarks.models import Benchmark
from runners.spec import Load, Workload

_WORKLOAD, _LOAD = ({field.name for field in fields(kind)} for kind in (Workload, Load))


def asking(benchmark: Benchmark, **values: Any) -> Benchmark:
    """The benchmark (unsaved) with these fields of workload, load, or its own."""
    for name, value in values.items():
        if name in _WORKLOAD:
            benchmark.workload = {**benchmark.workload, name: value}
        elif name in _LOAD:
            benchmark.load = {**benchmark.load, name: value}
        else:
            setattr(benchmark, name, value)
    return benchmark


def ask(benchmark: Benchmark, **values: Any) -> Benchmark:
    """The same, saved."""
    asking(benchmark, **values).save()
    return benchmark
