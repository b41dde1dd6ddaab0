"""What requests differ in beside their prompts: the model or adapter that they name, and their pictures."""

import random
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from runners import spec
from runners.load.png import png
from runners.spec import ModelShare


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
