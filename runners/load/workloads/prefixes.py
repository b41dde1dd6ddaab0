"""Groups of prompts that begin alike."""

from itertools import accumulate

from runners.load.words import Words
from runners.load.workloads.base import Context, Message, Said, Turn
from runners.load.workloads.lengths import Lengths
from runners.sources import Prefixes


class PrefixTurns:
    def __init__(self, source: Prefixes, read: None, context: Context) -> None:
        self._source = source
        self._context = context
        self._input, self._output = Lengths(context.input_tokens), Lengths(context.output_tokens)
        self._weights = list(accumulate(1 / rank**source.zipf for rank in range(1, source.groups + 1)))
        self._ranks = range(source.groups)
        self._prefix_words = context.fit.words_of(source.prefix_tokens)
        self._begin(f"{context.salt}/warmup" if context.warms_up else context.salt)

    def _begin(self, salt: str) -> None:
        self._words = Words(self._context.seed, salt, self._context.fit.vocabulary)
        self._prefixes: dict[int, str] = {}
        self._seen: set[int] = set()
        self._next = 0

    def start(self, index: int) -> Turn:
        words = self._words
        group = self._group(index)
        tokens, output = self._input.draw(words, f"{index}/input"), self._output.draw(words, f"{index}/output")
        seen = self._was_seen(group, index)
        if group not in self._prefixes:
            self._prefixes[group] = words.text(f"prefix {group}", self._prefix_words)
        own = words.text(str(index), max(1, self._context.fit.words_for(tokens) - self._prefix_words))
        reusable = self._source.prefix_tokens if seen else 0
        return Turn((Message("user", f"{self._prefixes[group]} {own}"),), tokens, output, reusable, group)

    def _group(self, index: int) -> int:
        return self._words.draws(index).choices(self._ranks, cum_weights=self._weights)[0]

    def _was_seen(self, group: int, index: int) -> bool:
        """Whether a turn before this one had that prefix; those that other load processes send are counted too."""
        self._seen.update(self._group(between) for between in range(self._next, index))
        self._next = index + 1
        seen = group in self._seen
        self._seen.add(group)
        return seen

    def follow(self, turn: Turn, said: Said) -> tuple[Turn, int] | None:
        return None

    def renew(self) -> bool:
        """The measured prefixes are others than those of the warm-up."""
        begun = self._next
        self._begin(self._context.salt)
        self._next = begun
        return True


def words(source: Prefixes, read: None) -> str:
    return (
        f"{source.groups} groups of made-up prompts whose first {source.prefix_tokens} tokens are alike; a group's "
        f"weight is 1 / rank^{source.zipf:g}; the prefixes of the warm-up are others than the measured ones"
    )
