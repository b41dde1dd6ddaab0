"""Prompts of a stated token length, unique per request and per run."""

import random
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from runners import spec
from runners.load.png import png
from runners.spec import ModelShare

#: No tokenizer cuts common words finer or holds them together more; other counts are not believed.
_LEAST_PER_WORD, _MOST_PER_WORD = 0.2, 20.0

#: Common words that nearly every tokenizer holds as one token with the space before them.
WORDS = tuple(Path(__file__).with_name("words.txt").read_text().split())


@dataclass(frozen=True)
class LengthFit:
    """How prompt tokens grow with words on this endpoint: tokens = overhead + per_word x words.

    ``overhead_tokens`` is the chat template. ``checked`` says whether the endpoint told; without that one word counts
    as one token and the length is only asked for, not known.
    """

    overhead_tokens: float = 0.0
    tokens_per_word: float = 1.0
    checked: bool = False

    def words_for(self, tokens: int) -> int:
        return max(1, round((tokens - self.overhead_tokens) / self.tokens_per_word))

    @classmethod
    def from_counts(cls, small: tuple[int, int], large: tuple[int, int]) -> "LengthFit":
        """From two (words, prompt tokens) that the endpoint counted."""
        per_word = (large[1] - small[1]) / (large[0] - small[0])
        if not _LEAST_PER_WORD <= per_word <= _MOST_PER_WORD:
            return cls()
        return cls(small[1] - per_word * small[0], per_word, checked=True)


class Prompts:
    """Seeded prompts. The same seed, salt and index give the same prompt; two salts share no opening, so that no prefix
    cache serves one run from another."""

    def __init__(self, seed: int, salt: str, words: int) -> None:
        self._key = f"{seed}/{salt}/"
        self._words = words

    def prompt(self, index: int) -> str:
        rng = random.Random(sha256(f"{self._key}{index}".encode()).digest())
        return " ".join(rng.choices(WORDS, k=self._words))


class Models:
    """Which model or adapter each request names: seeded, by weight."""

    def __init__(self, shares: Sequence[ModelShare], seed: int, salt: str) -> None:
        self._names = [share.name for share in shares]
        self._weights = [share.weight for share in shares]
        self._key = f"{seed}/{salt}/model/"

    def pick(self, index: int) -> str:
        """Empty where there is nothing to choose."""
        if not self._names:
            return ""
        return random.Random(f"{self._key}{index}").choices(self._names, self._weights)[0]


class Images:
    """Pictures for requests: seeded, and no two alike, so that no cache of encoded images serves one for another."""

    def __init__(self, asked: spec.Images, salt: str, seed: int) -> None:
        self._asked = asked
        self._key = f"{seed}/{salt}/image/"

    def of(self, index: int) -> tuple[str, ...]:
        """PNG files in base64."""
        size = self._asked.width_px, self._asked.height_px
        return tuple(
            b64encode(png(*size, sha256(f"{self._key}{index}/{number}".encode()).digest())).decode("ascii")
            for number in range(self._asked.count)
        )


def tokenizer_counter(path: str) -> Callable[[str], int]:
    """Counts tokens with a tokenizer.json. Raises ValueError with what to do when it cannot be read."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:
        raise ValueError(f"the tokenizer {path} cannot be read ({error}): give the path of a tokenizer.json") from None

    def count(text: str) -> int:
        whole = text.encode("utf-8", "replace").decode()  # a lone surrogate is JSON, and no text for a tokenizer
        return len(tokenizer.encode(whole, add_special_tokens=False).ids)

    return count
