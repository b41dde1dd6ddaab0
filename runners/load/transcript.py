"""What an answer said, put together from its events: token events with their stamps, counts, reasons."""

from array import array

from runners.load.dialects import Delta, Timings, Usage
from runners.load.dialects.base import MAX_TOKENS
from runners.load.tokens import CountTokens

#: Usage and tokenizer may differ by special tokens; beyond both of these one of them is wrong.
_TOLERANCE, _TOLERANCE_TOKENS = 0.05, 3


class Transcript:
    """Takes the deltas of one answer in order.

    ``stamps_ns``, ``choices`` and ``event_tokens`` are those of token events; ``texts`` are their texts with the choice
    of each, joined here and there.
    """

    __slots__ = (
        "_closed",
        "_ended_choice",
        "_reasons",
        "_thought",
        "_usage_since_token",
        "choices",
        "done",
        "event_tokens",
        "finish_reason",
        "first_answer_ns",
        "flags",
        "model",
        "plain",
        "stamps_ns",
        "texts",
        "timings",
        "usage",
        "whole_ns",
    )

    def __init__(self) -> None:
        self.stamps_ns = array("q")
        self.choices: list[int] = []
        self.texts: list[tuple[int, str]] = []
        self.event_tokens: list[int] = []
        self.flags: list[str] = []
        self.usage: Usage | None = None
        self.timings = Timings()
        self.finish_reason: str | None = None
        self.model: str | None = None
        self.first_answer_ns: int | None = None
        self.whole_ns: int | None = None
        self.plain: str | None = None  # the text of the last event, when it was nothing but text
        self.done = False
        self._usage_since_token = False
        self._ended_choice = 0
        self._closed: dict[int, Usage] = {}
        self._thought: int | None = None
        self._reasons = 0  # how many texts came before the answer

    def flag(self, name: str) -> None:
        if name not in self.flags:
            self.flags.append(name)

    def again(self, text: str, stamps_ns: "array[int]") -> None:
        """The last event some more times, with other plain texts, which are joined in ``text``."""
        self.stamps_ns += stamps_ns
        self.texts.append((self.choices[-1], text))
        self.choices += self.choices[-1:] * len(stamps_ns)
        self._usage_since_token = False

    def take(self, delta: Delta, stamp_ns: int) -> None:
        """One event of a stream."""
        before = self.usage.output or 0 if self.usage else 0
        self._keep(delta)
        self.plain = delta.plain_text
        grown = (delta.usage.output or 0) - before if delta.usage else 0
        spoken = [piece for piece in delta.pieces if piece.text]
        if not spoken and grown > 0 and self.finish_reason is None:  # a token without text, as the count tells
            spoken = delta.pieces[:1]
        for piece in spoken:
            if piece.content and self.first_answer_ns is None:
                self.first_answer_ns, self._reasons = stamp_ns, len(self.texts)
            self.stamps_ns.append(stamp_ns)
            self.choices.append(piece.choice)
            self.texts.append((piece.choice, piece.text))
        if spoken:
            self._usage_since_token = False
            self._count_reasoning(delta)
        if len(spoken) == 1 and grown > 0:
            self.event_tokens.append(grown)

    def _count_reasoning(self, delta: Delta) -> None:
        """By the running count of the event, where it has one: all that came before the answer began."""
        if delta.decoded is not None:
            reasons = any(piece.reasoning for piece in delta.pieces)
            self._thought = delta.decoded if reasons else self._thought or 0

    def take_whole(self, delta: Delta, stamp_ns: int) -> None:
        """An answer that came in one piece."""
        self._keep(delta)
        for piece in delta.pieces:
            if piece.text:
                self.texts.append((piece.choice, piece.text))
                self.choices.append(piece.choice)
        if delta.generated or delta.results:
            self.whole_ns = stamp_ns

    def _keep(self, delta: Delta) -> None:
        self.model = delta.model or self.model
        self.timings = delta.timings or self.timings
        self.done = self.done or delta.done
        if delta.finish_reason:
            self.finish_reason = delta.finish_reason
            self._ended_choice = delta.pieces[0].choice if delta.pieces else 0
        if delta.usage is None:
            return
        usage = delta.usage.after(self.usage)
        told_before = self._usage_since_token and (delta.pieces or self._ended_choice in self._closed)
        if told_before and not delta.generated and usage != self.usage:
            self.flag("usage_conflict")
        if not delta.pieces:
            self._closed[self._ended_choice] = usage
        self.usage = usage
        self._usage_since_token = not delta.generated

    @property
    def events_tokens(self) -> list[int] | None:
        """Tokens of each token event; None unless the server told them for every one."""
        return self.event_tokens if len(self.event_tokens) == len(self.stamps_ns) > 0 else None

    @property
    def answer_text(self) -> str:
        """What the first choice answered; reasoning in events before it is left out, as chats leave it out."""
        return "".join(text for choice, text in self.texts[self._reasons :] if choice == 0)

    @property
    def reasoning_tokens(self) -> int | None:
        """By the server's usage, else by its running count at the last reasoning; None where it tells neither."""
        told = self.usage.reasoning if self.usage else None
        return self._thought if told is None else told

    @property
    def several_choices(self) -> bool:
        return any(self.choices)

    def output_tokens(self) -> int | None:
        """By the server's usage; None without one that can be true. Some servers count each choice by itself."""
        if self.usage is None:
            return None
        output = self.usage.output
        if len(self._closed) > 1 and self.several_choices:
            output = sum(usage.output or 0 for usage in self._closed.values())
        if (self.texts and not output) or (output or 0) > MAX_TOKENS:
            self.flag("bad_usage")
            return None
        return output

    def counted_tokens(self, count_tokens: CountTokens) -> int:
        """By the model's tokenizer, over the whole text of each choice."""
        whole: dict[int, list[str]] = {}
        for choice, text in self.texts:
            whole.setdefault(choice, []).append(text)
        return sum(count_tokens("".join(texts)) for texts in whole.values())

    def compare(self, usage_tokens: int, counted_tokens: int) -> None:
        """Flags a usage that the text does not bear out; reasoning may be counted and yet not shown."""
        hidden = (self.usage.reasoning or 0) if self.usage else 0
        off = min(abs(usage_tokens - counted_tokens), abs(usage_tokens - hidden - counted_tokens))
        if off > max(_TOLERANCE * usage_tokens, _TOLERANCE_TOKENS):
            self.flag("usage_disagrees")
