"""What every dialect gives the engine: how to ask, and what each event of an answer says in common terms."""

import json
import reprlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from runners.load.lines import LineDecoder
from runners.load.sse import Decoder, StreamDecoder
from runners.load.workloads import Message

MAX_TOKENS = 100_000_000
_MAX_MS = 1e12
_MAX_CHOICE = 32_767
_SHOWN = reprlib.Repr()
_SHOWN.maxlevel, _SHOWN.maxdict, _SHOWN.maxlist = 4, 12, 12
_SHOWN.maxstring = _SHOWN.maxother = 1 << 30  # a cut within could leave a part of a key


class BadPayload(Exception):
    """JSON, but not in the dialect's shape."""


class InbandError(Exception):
    """An error object inside a successful response."""


class Usage(NamedTuple):
    """Token counts by the server. ``cached`` is a part of ``prompt``, ``reasoning`` a part of ``output``."""

    prompt: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None

    def after(self, earlier: "Usage | None") -> "Usage":
        """This one, with what it leaves out taken from an earlier one: some servers tell it in parts."""
        if earlier is None:
            return self
        return Usage(*(new if new is not None else old for new, old in zip(self, earlier, strict=True)))


class Timings(NamedTuple):
    """What the server itself says that it took, in milliseconds: a second source, kept beside ours."""

    prompt_ms: float | None = None
    decode_ms: float | None = None


@dataclass(slots=True)
class Piece:
    """Generated text of one choice; all three may be empty."""

    choice: int = 0
    content: str = ""
    reasoning: str = ""
    other: str = ""  # tool calls, refusal

    @property
    def text(self) -> str:
        return self.reasoning + self.content + self.other


@dataclass(slots=True)
class Delta:
    """What one event, or one whole answer, said. None: not mentioned.

    ``finish_reason`` is "stop", "length", "tool_calls" or "content_filter" where the dialect has a word for it, else
    the server's own. ``done``: the dialect's end mark. ``results``: vectors or ranks of an answer without tokens.
    ``decoded``: tokens generated so far, by the server's running count.
    """

    pieces: list[Piece] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None
    timings: Timings | None = None
    done: bool = False
    results: int = 0
    decoded: int | None = None

    @property
    def generated(self) -> bool:
        return any(piece.text for piece in self.pieces)

    @property
    def plain_text(self) -> str | None:
        """The answer's text, when the event said that and nothing else that changes; None otherwise."""
        if len(self.pieces) != 1 or self.finish_reason or self.usage or self.timings or self.done:
            return None
        piece = self.pieces[0]
        return piece.content if piece.content and not (piece.reasoning or piece.other) else None


@dataclass(frozen=True, slots=True)
class Ask:
    """One request in common terms. ``images`` are PNG files in base64 that go with the last message."""

    model: str
    messages: tuple[Message, ...]
    output_tokens: int
    stream: bool = True
    choices: int = 1
    images: tuple[str, ...] = ()
    temperature: float = 0.0
    ignore_eos: bool = True

    @property
    def prompt(self) -> str:
        """For forms without roles: all texts, a blank line apart."""
        return "\n\n".join(message.content for message in self.messages)

    def chat(self, content_of: Callable[[str], Any] = lambda text: text) -> list[dict[str, Any]]:
        """The messages as most chat forms want them; ``content_of`` adds the images to the last one."""
        *earlier, last = self.messages
        chat: list[dict[str, Any]] = [{"role": message.role, "content": message.content} for message in earlier]
        return [*chat, {"role": last.role, "content": content_of(last.content)}]


class Token(NamedTuple):
    """A generated token with its natural log probability, and the likeliest tokens at its place, itself included."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Logprobs:
    """How log probabilities are asked for and read. ``fields`` takes how many tokens are wanted at each place;
    ``read`` gives the tokens of a whole answer's first choice, none where the server left them out.
    """

    fields: Callable[[int], dict[str, Any]]
    read: Callable[[Any], list[Token]]


@dataclass(frozen=True)
class Framing:
    """How events lie in the body. ``bare_json``: a line of JSON each, of which the last needs no line end."""

    content_types: tuple[str, ...]
    decoder: Callable[[bytes], StreamDecoder]
    bare_json: bool = False


SSE = Framing(("text/event-stream",), Decoder)
JSON_LINES = Framing(("application/x-ndjson", "application/ndjson", "application/jsonl"), LineDecoder, bare_json=True)


@dataclass(frozen=True)
class DialectForm:
    """One wire form. All of ``read`` and ``read_whole`` raise BadPayload and InbandError and nothing else, whatever the
    JSON holds.

    path, whole_path    behind the base address, for streamed and for whole answers; ``{model}`` stands for the model
    base                what completes an address that has no version segment: "/v1", or "" for dialects without one
    headers             sent with every request
    key_header          "NAME: SCHEME" or "NAME": where the API key goes
    models_path         behind the base address: the page that lists the server's models; "" without one
    end_mark            data of the event that ends a stream although it is not JSON
    ends_by_close       the stream has no end mark: a clean close ends it
    generates           False for answers without tokens, which are never streamed
    optional            body fields that some servers refuse, in the order in which they are left out
    renamed             (old, new) name of a body field that some servers want under its new name
    logprobs            None where the form has no words for them
    """

    path: str
    body: Callable[[Ask], dict[str, Any]]
    read_whole: Callable[[Any], Delta]
    read: Callable[[Any], Delta] = lambda chunk: Delta()
    whole_path: str = ""
    base: str = "/v1"
    headers: tuple[tuple[str, str], ...] = ()
    key_header: str = "Authorization: Bearer"
    models_path: str = "/models"
    framing: Framing = SSE
    end_mark: bytes = b"[DONE]"
    ends_by_close: bool = False
    generates: bool = True
    optional: tuple[str, ...] = ()
    renamed: tuple[str, str] | None = None
    logprobs: Logprobs | None = None
    takes_choices: bool = False
    takes_images: bool = False
    least_output_tokens: int = 1


# reading JSON that may hold anything


def object_of(value: Any, name: str) -> dict[str, Any]:
    """Raises BadPayload for anything but an object."""
    if not isinstance(value, dict):
        raise BadPayload(f"{name} is {type(value).__name__}, not an object")
    return value


def list_of(value: Any, name: str) -> list[Any]:
    """Null is an empty list. Raises BadPayload for anything else that is not a list."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadPayload(f"{name} is {type(value).__name__}, not a list")
    return value


def text_of(value: Any, name: str) -> str:
    """Null is an empty text. Raises BadPayload for anything else that is not text."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadPayload(f"{name} is {type(value).__name__}, not text")
    return value


def count_of(value: Any) -> int | None:
    """A plausible token count; anything else is missing."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS:
        return value
    return None


def choice_of(value: Any) -> int:
    """Which of a request's answers this is; the first unless told. Raises BadPayload for one that nobody asked for."""
    index = count_of(value) or 0
    if index > _MAX_CHOICE:
        raise BadPayload(f"a choice has the index {index}")
    return index


def json_of(value: Any, name: str) -> str:
    """JSON text of generated JSON. Raises BadPayload for what is nested too deeply to be written."""
    try:
        return json.dumps(value)
    except RecursionError:
        raise BadPayload(f"{name} is nested too deeply") from None


def member(value: Any, *path: str) -> Any:
    """What lies at ``path`` inside objects; None where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def ms_of(value: Any, per_ms: float = 1.0) -> float | None:
    """A plausible duration in milliseconds; ``per_ms`` is 1e6 for nanoseconds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MAX_MS * per_ms:
        return value / per_ms
    return None


def refuse_error(chunk: Any) -> dict[str, Any]:
    """The object itself. Raises InbandError when it carries an error, BadPayload when it is no object."""
    answer = object_of(chunk, "the answer")
    error = answer.get("error")
    if error:
        raise InbandError(error_text(error))
    return answer


def words_of(value: Any) -> str:
    """Any JSON as text for people: text as it is, whole; all else bounded in depth and length."""
    return value if isinstance(value, str) else _SHOWN.repr(value)


def error_text(error: Any) -> str:
    if isinstance(error, dict):
        return words_of(error.get("message") or error.get("detail") or error.get("type") or error)
    return words_of(error)
