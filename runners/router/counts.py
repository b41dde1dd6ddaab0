"""What the router counts, as a page for Prometheus; the pages of its upstreams follow, each line with their name."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from runners.router.upstream import Upstream

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?([ \t].+)")
_WORDS = {
    "router_requests_total": "Requests with a prompt that were put to an upstream.",
    "router_decisions_total": "Requests with a prompt, by what the policy decided.",
    "router_sent_on_total": "Of those, the ones that the large model was asked.",
    "router_failures_total": "Times that an upstream did not answer.",
    "router_broken_total": "Answers that broke off after a part had gone to the client.",
    "router_in_flight": "Requests at an upstream now.",
}


@dataclass
class Counts:
    """By the name of an upstream, but ``decisions``; ``sent_on`` where the policy chooses between models."""

    policy: str
    upstreams: Sequence[Upstream]
    sent_on: int | None = None
    requests: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)

    def page(self, pages: Mapping[str, str]) -> str:
        """``pages``: those of the upstreams, by name."""
        lines = [*self._lines()]
        for name, page in pages.items():
            lines += _labelled(page, name)
        return "\n".join([*lines, ""])

    def _lines(self) -> Iterator[str]:
        names = [upstream.name for upstream in self.upstreams]
        for metric, counter in (
            ("router_requests_total", self.requests),
            ("router_failures_total", self.failures),
            ("router_broken_total", self.broken),
        ):
            yield from _metric(metric, {f'upstream="{name}"': counter[name] for name in names})
        yield from _metric(
            "router_in_flight", {f'upstream="{found.name}"': found.in_flight for found in self.upstreams}, "gauge"
        )
        labels = {f'policy="{self.policy}",decision="{word}"': count for word, count in sorted(self.decisions.items())}
        yield from _metric("router_decisions_total", labels)
        if self.sent_on is not None:
            yield from _metric("router_sent_on_total", {f'policy="{self.policy}"': self.sent_on})


def _metric(name: str, values: Mapping[str, int], kind: str = "counter") -> Iterator[str]:
    yield f"# HELP {name} {_WORDS[name]}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value}"


def _labelled(page: str, upstream: str) -> Iterator[str]:
    """The samples of a page; what is said about them may stand only once on a page, and is left out."""
    for line in page.splitlines():
        if found := _LINE.fullmatch(line):
            name, labels, rest = found.groups()
            yield f'{name}{{upstream="{upstream}"{"," + labels if labels else ""}}}{rest}'
