"""What every dialect gives the engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class BadPayload(Exception):
    """JSON, but not in the dialect's shape."""


class InbandError(Exception):
    """An error object inside a successful response."""


@dataclass(slots=True)
class Delta:
    """What one event, or one whole non-streamed answer, said. Texts may be empty; None means not mentioned."""

    content: str = ""
    reasoning: str = ""
    other: str = ""  # tool-call arguments, refusal
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    model: str | None = None
    timings: dict[str, Any] | None = None
    choices: int = 0

    @property
    def generated(self) -> bool:
        return bool(self.content or self.reasoning or self.other)

    @property
    def plain_text(self) -> str | None:
        """The answer's text, when the event said that and nothing else that changes; None otherwise."""
        more = self.reasoning or self.other or self.finish_reason or self.usage or self.timings
        return self.content if self.content and not more else None


@dataclass(frozen=True)
class DialectForm:
    """``path`` follows the base URL; ``body`` builds a request; ``read`` reads one event's or answer's JSON.

    ``read`` raises BadPayload and InbandError and nothing else, whatever the JSON holds.
    """

    path: str
    body: Callable[[str, str, int], dict[str, Any]]
    read: Callable[[Any], Delta]
    read_whole: Callable[[Any], Delta]
