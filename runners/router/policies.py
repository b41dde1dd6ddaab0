"""Whom a request is sent to. Pure but for the turn that round robin keeps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count

from runners.router import classifier
from runners.router.settings import LARGE, SMALL, Policy, Settings


@dataclass(frozen=True)
class Choice:
    """``order``: the upstream that is asked, then those that are asked in its place when it does not answer.
    ``decision``: why, in a word for the counters.
    """

    order: tuple[int, ...]
    decision: str


#: From a prompt and the number of requests in flight at each upstream.
Choose = Callable[[str, Sequence[int]], Choice]

#: What each policy can decide.
DECISIONS: Mapping[Policy, tuple[str, ...]] = {
    Policy.ROUND_ROBIN: ("turn",),
    Policy.LEAST_OUTSTANDING: ("least", "tie"),
    Policy.PREFIX_AFFINITY: ("home", "overloaded"),
    Policy.RULES: ("short", "long", "hard_word"),
    Policy.CLASSIFIER: ("easy", "hard"),
    Policy.CONFIDENCE: ("sure", "unsure", "unknown", "small_failed"),
    Policy.DISAGGREGATED: ("prefilled", "prefill_failed"),
}


def chooser(settings: Settings) -> Choose | None:
    """None where an upstream is asked before it is decided (proxy.py)."""
    make = _CHOOSERS.get(settings.policy)
    return make(settings) if make else None


def to_small(decision: str) -> Choice:
    return Choice((SMALL, LARGE), decision)


def to_large(decision: str) -> Choice:
    """No small model in its place: an answer that is worse than was decided would pass unnoticed."""
    return Choice((LARGE,), decision)


def _behind(first: int, in_flight: Sequence[int]) -> tuple[int, ...]:
    """The others follow, the least busy one first."""
    others = sorted((index for index in range(len(in_flight)) if index != first), key=in_flight.__getitem__)
    return (first, *others)


def _round_robin(settings: Settings) -> Choose:
    turns = count()
    return lambda prompt, in_flight: Choice(_behind(next(turns) % len(in_flight), in_flight), "turn")


def _least_outstanding(settings: Settings) -> Choose:
    turns = count()

    def choose(prompt: str, in_flight: Sequence[int]) -> Choice:
        turn, least = next(turns), min(in_flight)
        idlest = [index for index, busy in enumerate(in_flight) if busy == least]
        return Choice(_behind(idlest[turn % len(idlest)], in_flight), "tie" if len(idlest) > 1 else "least")

    return choose


def _prefix_affinity(settings: Settings) -> Choose:
    """Highest random weight (Thaler and Ravishankar 1998): a replica that goes moves only its own prefixes."""

    def choose(prompt: str, in_flight: Sequence[int]) -> Choice:
        prefix = prompt[: settings.prefix_bytes].encode(errors="replace")[: settings.prefix_bytes]
        weights = [blake2b(prefix, salt=b"%d" % index, digest_size=8).digest() for index in range(len(in_flight))]
        home = max(range(len(in_flight)), key=weights.__getitem__)
        if in_flight[home] - min(in_flight) < settings.overload:
            return Choice(_behind(home, in_flight), "home")
        return Choice(_behind(min(range(len(in_flight)), key=in_flight.__getitem__), in_flight), "overloaded")

    return choose


def _rules(settings: Settings) -> Choose:
    hard = frozenset(word.lower() for word in settings.hard_words)

    def choose(prompt: str, in_flight: Sequence[int]) -> Choice:
        words = classifier.words_of(prompt)
        if len(words) > settings.max_words:
            return to_large("long")
        return to_large("hard_word") if hard & set(words) else to_small("short")

    return choose


def _classifier(settings: Settings) -> Choose:
    model = classifier.shipped()

    def choose(prompt: str, in_flight: Sequence[int]) -> Choice:
        hard = model.probability(prompt) >= settings.hard_probability
        return to_large("hard") if hard else to_small("easy")

    return choose


_CHOOSERS: Mapping[Policy, Callable[[Settings], Choose]] = {
    Policy.ROUND_ROBIN: _round_robin,
    Policy.LEAST_OUTSTANDING: _least_outstanding,
    Policy.PREFIX_AFFINITY: _prefix_affinity,
    Policy.RULES: _rules,
    Policy.CLASSIFIER: _classifier,
}
