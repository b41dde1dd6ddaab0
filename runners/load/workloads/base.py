"""What every workload gives a stage: turns to send, and what follows when one was answered."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from runners.load.tokens import CountTokens
from runners.load.words import LengthFit
from runners.sources import Tokens


class Message(NamedTuple):
    """``role`` is system, user or assistant."""

    role: str
    content: str


@dataclass(slots=True)
class Chain:
    """Turns that wait for each other: ``number`` tells them apart within a stage, ``turns`` is how many are planned."""

    number: int
    turns: int
    began_ns: int = 0


@dataclass(slots=True)
class Turn:
    """One request as a workload wants it.

    input_tokens      asked for, template included; None where the length cannot be known beforehand
    reusable_tokens   of these, what an endless prefix cache could serve because earlier turns of the stage began alike
    group             of prompts that share a prefix
    position          within its chain, from 0
    """

    messages: tuple[Message, ...]
    input_tokens: int | None
    output_tokens: int
    reusable_tokens: int = 0
    group: int | None = None
    chain: Chain | None = None
    position: int = 0


@dataclass(frozen=True, slots=True)
class Said:
    """How a turn was answered; token counts are the server's, None where it does not tell."""

    ok: bool
    text: str
    input_tokens: int | None
    output_tokens: int | None
    due_ns: int
    end_ns: int


@dataclass(frozen=True)
class Context:
    """What a workload may rest on. ``seed`` decides lengths, and ``salt`` makes texts unlike those of other runs; both
    differ from stage to stage. ``warms_up``: its first turns are warm-up."""

    seed: int | str
    salt: str
    fit: LengthFit
    count_tokens: CountTokens | None
    input_tokens: Tokens
    output_tokens: Tokens
    stage: int = 0
    stages: int = 1
    warms_up: bool = False


class Workload(Protocol):
    """The turns of one stage."""

    def start(self, index: int) -> Turn:
        """A turn that waits for no other; called with 0, 1, 2, ..."""

    def follow(self, turn: Turn, said: Said) -> tuple[Turn, int] | None:
        """The turn after an answered one and when it is due; None where the chain ends."""

    def renew(self) -> bool:
        """The measured part begins. True: turns of the warm-up that were not sent must be thrown away, for the measured
        ones share nothing with them."""


class Single:
    """A workload whose turns neither wait for each other nor begin alike."""

    def follow(self, turn: Turn, said: Said) -> tuple[Turn, int] | None:
        return None

    def renew(self) -> bool:
        return False
