"""Before a run: does the endpoint answer, which fields does it refuse, how many of its tokens is a word?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from typing import Any

import orjson

from runners.load.answer import row_of
from runners.load.arrivals import ClosedLoop, Span
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.outcomes import HELP, Outcome
from runners.load.target import Requests
from runners.load.tokens import CountTokens, endpoint_counter, single_token_words
from runners.load.transport import Destination
from runners.load.variants import Images
from runners.load.words import WORDS, LengthFit, Words
from runners.load.workloads import Message
from runners.sources import Prefixes, Synthetic, most_tokens
from runners.spec import Timeouts

_SMALL_WORDS, _LARGE_WORDS = 16, 112
_TOKENIZER_TOLERANCE = 0.02
_PAGE_TIMEOUTS = Timeouts(connect_s=3.0, first_byte_s=5.0, idle_s=5.0, total_s=10.0)
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
    """What the check settled: requests in the form that the endpoint takes, and its prompt lengths.

    ``lengths_from`` says who told them: "tokenizer", "endpoint" (its /tokenize), "usage" or "unknown". ``count_tokens``
    is there with the first two only.
    """

    requests: Requests
    fit: LengthFit
    row: dict[str, Any]
    lengths_from: str = "unknown"
    count_tokens: CountTokens | None = None


@dataclass(frozen=True)
class Needs:
    """What the workload needs to know beside the length of a plain prompt."""

    turns: bool = False
    system: bool = False


OnTick = Callable[[int], None]


def exchange_once(
    destination: Destination, timeouts: Timeouts, request: bytes, output_tokens: int = 0, on_tick: OnTick | None = None
) -> Exchange:
    """One request through the same engine that measures. ``on_tick`` may raise to give up."""
    finished: list[Exchange] = []
    engine = Engine(destination, timeouts, finished.append)
    try:
        engine.drive(
            ClosedLoop(concurrency=1, span=Span(0, requests=1)),
            lambda _: Exchange(request, asked_output_tokens=output_tokens),
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

    def ask(self, requests: Requests, *texts: str, system: str = "", model: str = "") -> dict[str, Any]:
        """The row of the answer; ``texts`` are questions and answers in turn."""
        messages = [Message(("user", "assistant")[i % 2], text) for i, text in enumerate(texts)]
        if system:
            messages.insert(0, Message("system", system))
        workload, form = requests.workload, requests.form
        tokens = max(_CHECK_OUTPUT_TOKENS, form.least_output_tokens)
        images = Images(workload.images, "check", 0).of(0)
        request = requests.build(tuple(messages), tokens, model=model, images=images)
        exchange = exchange_once(self.destination, self.timeouts, request, tokens, self.on_tick)
        exchange.model = model or requests.models[0]
        return row_of(exchange, form, streams=requests.streams, secret=requests.key)

    def post(self, requests: Requests, path: str, body: dict[str, Any]) -> Any:
        """JSON from a page beside the measured one; None for anything but a success."""
        request = requests.post(path, orjson.dumps(body))
        exchange = exchange_once(self.destination, _PAGE_TIMEOUTS, request, on_tick=self.on_tick)
        response = exchange.response
        if response.status != 200 or not response.complete:
            return None
        try:
            return orjson.loads(response.body().data)
        except orjson.JSONDecodeError:
            return None


def check(
    asker: Asker,
    requests: Requests,
    salt: str,
    needs: Needs = Needs(),
    count_tokens: CountTokens | None = None,
) -> Checked:
    """Sends a few short requests, at least one to every model. ``count_tokens``: a tokenizer that the user named.

    Raises Unusable.
    """
    words = Words(0, f"{salt}/check")
    small = words.text("small", _SMALL_WORDS)
    requests, row = accepted(asker, requests, small)
    if row["outcome"] != Outcome.OK:
        raise Unusable(row["outcome"], explain(row))
    for model in requests.models[1:]:
        other = asker.ask(requests, small, model=model)
        if other["outcome"] != Outcome.OK:
            raise Unusable(other["outcome"], f"{model}: {explain(other)}")
    fit, source, count_tokens = _lengths(asker, requests, words, row, count_tokens)
    if fit.checked and (needs.turns or needs.system):
        fit = _chat_fit(asker, requests, fit, Words(0, f"{salt}/check/chat", fit.vocabulary), needs)
    return Checked(requests, fit, row, source, count_tokens)


def _lengths(
    asker: Asker, requests: Requests, words: Words, small_row: dict[str, Any], named: CountTokens | None
) -> tuple[LengthFit, str, CountTokens | None]:
    """The fit, who told it, and the tokenizer where there is one that counts as the endpoint does."""
    small, large = words.text("small", _SMALL_WORDS), words.text("large", _LARGE_WORDS)
    fit = _usage_fit(small_row, asker.ask(requests, large))
    post = partial(asker.post, requests)
    count_tokens = named or endpoint_counter(post, requests.models[0])
    exact = _exact_fit(fit, count_tokens, small, large) if count_tokens else None
    if exact is not None:
        return exact, "tokenizer" if named else "endpoint", count_tokens
    return fit, "usage" if fit.checked else "unknown", None


def accepted(asker: Asker, requests: Requests, prompt: str) -> tuple[Requests, dict[str, Any]]:
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


def _usage_fit(small: dict[str, Any], large: dict[str, Any]) -> LengthFit:
    if small["input_tokens"] is None or large["input_tokens"] is None:
        return LengthFit()
    return LengthFit.from_counts((_SMALL_WORDS, small["input_tokens"]), (_LARGE_WORDS, large["input_tokens"]))


def _exact_fit(fit: LengthFit, count_tokens: CountTokens, small: str, large: str) -> LengthFit | None:
    """With words of one token each; None for a tokenizer that does not count as the endpoint does."""
    apart, words_apart = count_tokens(large) - count_tokens(small), _LARGE_WORDS - _SMALL_WORDS
    if fit.checked and abs(apart - fit.tokens_per_word * words_apart) > _TOKENIZER_TOLERANCE * apart:
        return None
    vocabulary = single_token_words(count_tokens, WORDS)
    if not vocabulary:
        return None
    overhead = fit.overhead_tokens + fit.tokens_per_word * _LARGE_WORDS - count_tokens(large) if fit.checked else 0.0
    return LengthFit(overhead, 1.0, fit.checked, vocabulary=vocabulary)


def _chat_fit(asker: Asker, requests: Requests, fit: LengthFit, words: Words, needs: Needs) -> LengthFit:
    """What a system message and further turns cost in this endpoint's template, beside their texts."""
    texts = [words.text(str(i), _SMALL_WORDS) for i in range(4)]
    system = texts[3] if needs.system else ""
    per_text, overhead = fit.tokens_per_word * _SMALL_WORDS, fit.overhead_tokens
    if needs.system:
        opening = asker.ask(requests, texts[0], system=system)["input_tokens"]
        if opening is None:
            return fit
        overhead = opening - 2 * per_text
    longer = asker.ask(requests, *texts[:3], system=system)["input_tokens"] if needs.turns else None
    turn_tokens = None
    if longer is not None:
        turn_tokens = longer - overhead - (4 if needs.system else 3) * per_text
    return replace(fit, overhead_tokens=overhead, turn_tokens=turn_tokens)


def explain(row: dict[str, Any]) -> str:
    """What went wrong in words, with what to do."""
    detail = f" ({row['detail']})" if row["detail"] else ""
    return f"{HELP[Outcome(row['outcome'])]}{detail}"


def refuse_too_short(checked: Checked) -> None:
    """Raises Unusable for prompts that cannot be as short as asked. Pictures count as tokens that nobody asked for, and
    not every workload counts the template as a part of the length.
    """
    workload, fit = checked.requests.workload, checked.fit
    if not fit.checked or workload.images.count or not isinstance(workload.source, Synthetic | Prefixes):
        return
    longest = min(most_tokens(tokens) or inf for tokens in workload.input_sweep or (workload.input_tokens,))
    if longest <= round(fit.overhead_tokens):
        raise Unusable(
            "prompt_too_short",
            f"prompts of {longest} tokens cannot be sent: the chat template alone has "
            f"{fit.overhead_tokens:.0f} tokens; ask for at least {ceil(fit.overhead_tokens + fit.tokens_per_word)}",
        )
