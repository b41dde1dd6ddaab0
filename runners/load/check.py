"""Before a run: does the endpoint answer, which fields does it refuse, how many of its tokens is a word?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runners.load.answer import row_of
from runners.load.arrivals import ClosedLoop
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.outcomes import HELP, Outcome
from runners.load.target import Requests
from runners.load.transport import Destination
from runners.load.workload import Images, LengthFit, Prompts
from runners.spec import Timeouts

_SMALL_WORDS, _LARGE_WORDS = 16, 112
_CHECK_OUTPUT_TOKENS = 2
_REFUSED = (400, 422)


class Unusable(Exception):
    """The endpoint cannot be measured: ``code`` is an outcome, ``text`` says what is wrong and what to do."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True)
class Checked:
    """What the check settled: requests in the form that the endpoint takes, and its prompt lengths."""

    requests: Requests
    fit: LengthFit
    row: dict[str, Any]


OnTick = Callable[[int], None]


def exchange_once(
    destination: Destination, timeouts: Timeouts, request: bytes, output_tokens: int = 0, on_tick: OnTick | None = None
) -> Exchange:
    """One request through the same engine that measures. ``on_tick`` may raise to give up."""
    finished: list[Exchange] = []
    engine = Engine(destination, timeouts, finished.append)
    try:
        engine.drive(
            ClosedLoop(concurrency=1, warm_ns=0, requests=1, end_ns=None),
            lambda: Exchange(request, asked_output_tokens=output_tokens),
            drain_s=timeouts.connect_s + timeouts.total_s,
            on_tick=on_tick,
        )
    finally:
        engine.close()
    return finished[0]


@dataclass(frozen=True)
class Asker:
    """Asks one short streamed question at a time."""

    destination: Destination
    timeouts: Timeouts
    on_tick: OnTick | None = None

    def ask(self, requests: Requests, prompt: str, model: str = "") -> dict[str, Any]:
        """The row of the answer."""
        workload, form = requests.workload, requests.form
        tokens = max(_CHECK_OUTPUT_TOKENS, form.least_output_tokens)
        request = requests.build(prompt, tokens, model=model, images=Images(workload.images, "check", 0).of(0))
        exchange = exchange_once(self.destination, self.timeouts, request, tokens, self.on_tick)
        exchange.model = model or requests.models[0]
        return row_of(exchange, form, streams=requests.streams, secret=requests.key)


def check(asker: Asker, requests: Requests, salt: str) -> Checked:
    """Sends a few short requests, at least one to every model. Raises Unusable."""
    small = Prompts(0, f"{salt}/check", _SMALL_WORDS).prompt(0)
    requests, row = _accepted(asker, requests, small)
    if row["outcome"] != Outcome.OK:
        raise Unusable(row["outcome"], explain(row))
    for model in requests.models[1:]:
        other = asker.ask(requests, small, model)
        if other["outcome"] != Outcome.OK:
            raise Unusable(other["outcome"], f"{model}: {explain(other)}")
    return Checked(requests, _length_fit(asker, requests, row, salt), row)


def _accepted(asker: Asker, requests: Requests, prompt: str) -> tuple[Requests, dict[str, Any]]:
    """The first form of the request that is not refused with 400 or 422, and its row; else the full form's refusal."""
    first = asker.ask(requests, prompt)
    if first["http_status"] not in _REFUSED:
        return requests, first
    for candidate in _simpler(requests):
        row = asker.ask(candidate, prompt)
        if row["http_status"] not in _REFUSED:
            return candidate, row
    return requests, first


def _simpler(requests: Requests) -> Sequence[Requests]:
    """Forms with ever fewer of the dialect's optional fields, under the old and the new name where it has two."""
    optional = requests.form.optional
    return [
        replace(requests, omit=frozenset(optional[:count]), rename=rename)
        for rename in ((False, True) if requests.form.renamed else (False,))
        for count in range(1, len(optional) + 1)
    ]


def _length_fit(asker: Asker, requests: Requests, small: dict[str, Any], salt: str) -> LengthFit:
    large = asker.ask(requests, Prompts(0, f"{salt}/check", _LARGE_WORDS).prompt(1))
    if small["input_tokens"] is None or large["input_tokens"] is None:
        return LengthFit()
    return LengthFit.from_counts((_SMALL_WORDS, small["input_tokens"]), (_LARGE_WORDS, large["input_tokens"]))


def explain(row: dict[str, Any]) -> str:
    """What went wrong in words, with what to do."""
    detail = f" ({row['detail']})" if row["detail"] else ""
    return f"{HELP[Outcome(row['outcome'])]}{detail}"
