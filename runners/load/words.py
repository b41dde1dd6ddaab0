"""Made-up text of a stated token length, unlike any other of the run and of other runs."""

import random
from array import array
from dataclasses import dataclass
from hashlib import sha256, shake_128
from pathlib import Path

#: No tokenizer cuts common words finer or holds them together more; other counts are not believed.
_LEAST_PER_WORD, _MOST_PER_WORD = 0.2, 20.0

#: Common words that nearly every tokenizer holds as one token with the space before them.
WORDS = tuple(Path(__file__).with_name("words.txt").read_text().split())


@dataclass(frozen=True)
class LengthFit:
    """How prompt tokens grow with words on this endpoint: tokens = overhead + per_word x words.

    ``overhead_tokens`` is the chat template; ``turn_tokens`` what one more answer and question add beside their texts,
    None where that is not known. ``checked`` says whether the endpoint told; without that one word counts as one token
    and the length is only asked for, not known. ``vocabulary`` holds words of one token each where a tokenizer told.
    """

    overhead_tokens: float = 0.0
    tokens_per_word: float = 1.0
    checked: bool = False
    turn_tokens: float | None = None
    vocabulary: tuple[str, ...] = WORDS

    def words_for(self, tokens: int) -> int:
        """Words of a prompt that has ``tokens`` with its template."""
        return self.words_of(tokens - self.overhead_tokens)

    def words_of(self, tokens: float) -> int:
        """Words of a text that has ``tokens`` by itself; at least 1."""
        return max(1, round(tokens / self.tokens_per_word))

    @classmethod
    def from_counts(cls, small: tuple[int, int], large: tuple[int, int]) -> "LengthFit":
        """From two (words, prompt tokens) that the endpoint counted."""
        per_word = (large[1] - small[1]) / (large[0] - small[0])
        if not _LEAST_PER_WORD <= per_word <= _MOST_PER_WORD:
            return cls()
        return cls(small[1] - per_word * small[0], per_word, checked=True)


class Words:
    """Seeded text. The same seed, salt and key give the same; two salts share no opening, so that no prefix cache
    serves one run, stage or phase from another."""

    def __init__(self, seed: int | str, salt: str, vocabulary: tuple[str, ...] = WORDS) -> None:
        self._seed = seed
        self._salt = salt
        self._vocabulary = vocabulary

    def text(self, key: str, count: int) -> str:
        vocabulary, size = self._vocabulary, len(self._vocabulary)
        drawn = array("I", shake_128(f"{self._seed}/{self._salt}/{key}".encode()).digest(4 * count))
        return " ".join([vocabulary[number % size] for number in drawn])

    def draws(self, key: object) -> random.Random:
        """Numbers for all else that is drawn for ``key``: alike in all runs of one seed, whatever their salts."""
        return random.Random(sha256(f"{self._seed}/{key}/draws".encode()).digest())
