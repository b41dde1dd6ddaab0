"""A trial of a test, carried out: its verdict, and what its servers counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from observatory.runs.models import Measurement, Run
from observatory.studies import verdict
from observatory.studies.findings import Result
from observatory.studies.models import Trial
from runners.server.series import Span, increase, series

#: What a run of a machine that is busy with other tests may be, beside valid.
LIMITED = "stage_client_limited"


@dataclass(frozen=True)
class Carried:
    trial: Trial

    @cached_property
    def result(self) -> Result:
        return verdict.of(self.trial)

    @cached_property
    def runs(self) -> Mapping[str, Run]:
        """Load runs of the first repeat, by the arm's name."""
        turns = self.trial.slots.filter(kind=Run.Kind.LOAD, repeat=1).select_related("run", "arm")
        return {slot.arm.name: slot.run for slot in turns if slot.run is not None}

    def measured(self, metric: str, statistic: str = "mean") -> dict[str, float]:
        """By arm, whether or not the run may be compared."""
        found = Measurement.objects.filter(run__in=self.runs.values(), metric=metric, statistic=statistic)
        values = dict(found.values_list("run_id", "value"))
        return {name: values[run.pk] for name, run in self.runs.items() if run.pk in values}

    def engines(self) -> dict[str, Mapping[str, Any]]:
        """What was kept of the engine that was started, by arm."""
        return {name: (run.summary or {})["environment"]["engine"] for name, run in self.runs.items()}

    def counted(self, key: str, labelled: str = "") -> dict[str, float]:
        """Growth of a server's counter over the whole load, by arm; ``labelled``: only lines with this label."""
        return {name: _grown(run, key, labelled) for name, run in self.runs.items()}


def _grown(run: Run, key: str, labelled: str) -> float:
    with run.server_file.open() as stored:
        rows = pq.read_table(stored)
    marks = (run.summary or {})["server"]["marks_ns"]
    kept = [row for row in rows.to_pylist() if labelled in row["labels"]]
    return increase(series(pa.Table.from_pylist(kept, rows.schema), key), Span(marks[0], marks[-1])) or 0.0
