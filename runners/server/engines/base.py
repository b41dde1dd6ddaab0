"""What an engine calls the things that are read of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from runners.server.exposition import Sample, samples
from runners.server.metrics import BY_KEY, Kind

#: What a histogram's samples are called beside its name, and how their rows are keyed beside our key.
HISTOGRAM_PARTS = ("_bucket", "_sum")

#: What a router adds, which serves the pages of the engines behind it as one.
ROUTER = {
    "routed_requests": ("router_decisions_total",),
    "sent_on_requests": ("router_sent_on_total",),
    "upstream_requests": ("router_requests_total",),
}


@dataclass(frozen=True)
class EngineMetrics:
    """``names``: our key to the engine's names for it, the newest first; the first that a page has is read.

    ``prefix`` begins every name of the engine's own; ``how`` says how to have it serve the page.
    """

    engine: str
    prefix: str
    names: Mapping[str, tuple[str, ...]]
    how: str

    @cached_property
    def _keys(self) -> dict[str, tuple[str, int]]:
        """Sample name to (row key, its place among the names of that key)."""
        found: dict[str, tuple[str, int]] = {}
        for key, names in (*self.names.items(), *ROUTER.items()):
            parts = HISTOGRAM_PARTS if BY_KEY[key].kind is Kind.HISTOGRAM else ("",)
            for place, name in enumerate(names):
                found |= {name + part: (key + part, place) for part in parts}
        return found

    def read(self, page: str) -> list[tuple[str, Sample]]:
        """(row key, sample) of all that is known on ``page``. Raises ExpositionError."""
        found = [(*self._keys[sample.name], sample) for sample in samples(page, self._keys)]
        first: dict[str, int] = {}
        for key, place, _ in found:
            first[key] = min(place, first.get(key, place))
        return [(key, sample) for key, place, sample in found if place == first[key]]


def keys_of(found: Iterable[tuple[str, Sample]]) -> list[str]:
    """Our keys among row keys, in the order of the table of metrics."""
    present = {key.removesuffix("_bucket").removesuffix("_sum") for key, _ in found}
    return [key for key in BY_KEY if key in present]
