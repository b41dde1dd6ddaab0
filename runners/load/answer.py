"""From what came back to the row that is kept: events, tokens, stamps, outcome. Runs off the hot path."""

import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from runners.load.dialects import BadPayload, Delta, DialectForm, InbandError
from runners.load.exchange import Exchange
from runners.load.framing import MAX_BODY_BYTES, ProtocolError, Read, TooManyBytes
from runners.load.outcomes import Outcome
from runners.load.repeats import Repeat
from runners.load.sse import Decoder, Event, EventTooLarge

CountTokens = Callable[[str], int]

_MAX_TOKENS = 100_000_000
_DETAIL_CHARS = 300
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_INFLATE_BYTES = 262_144
_GZIP_WBITS = 47  # zlib or gzip, told by the header


class _Ended(Exception):
    """Reading stops here with an outcome."""

    def __init__(self, outcome: Outcome, detail: str = "") -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


def clean(text: str, secret: str = "") -> str:
    """One printable line of bounded length; a secret that a server echoes is cut out."""
    if secret:
        text = text.replace(secret, "[key]")
    return _UNPRINTABLE.sub(" ", text).strip()[:_DETAIL_CHARS]


class Answer:
    """Reads one exchange's response. ``row`` gives the record in the columns of ``runners.load.records``.

    ``texts`` and ``stamps_ns`` are of its token events.
    """

    def __init__(
        self,
        exchange: Exchange,
        form: DialectForm,
        model: str,
        *,
        count_tokens: CountTokens | None = None,
        secret: str = "",
    ) -> None:
        self._exchange = exchange
        self._form = form
        self._model = model
        self._count_tokens = count_tokens
        self._secret = secret
        self._flags: list[str] = []
        self.texts: list[str] = []
        self.stamps_ns: list[int] = []  # of token events
        self._event_tokens: list[int] = []
        self._usage: dict[str, Any] | None = None
        self._usage_since_token = False
        self._usage_tokens = 0
        self._timings: dict[str, Any] = {}
        self._finish_reason: str | None = None
        self._response_model: str | None = None
        self._first_event_ns: int | None = None
        self._first_answer_ns: int | None = None
        self._plain: str | None = None  # the text of the last event, when it was nothing but text
        self._done = False
        self._streamed = True
        self._whole_ns: int | None = None
        self._outcome, self._detail = self._read()

    def row(self) -> dict[str, Any]:
        """The record, JSON-free Python values, None where a thing never happened."""
        exchange, response = self._exchange, self._exchange.response
        input_tokens, cached, output_tokens, reasoning, source = self._tokens()
        sent = exchange.sent_ns
        headers_ns = response.reads[response.headers_read][0] if response.headers_read is not None else None
        return {
            "stage": exchange.stage,
            "index": exchange.index,
            "warmup": exchange.warmup,
            "due_ns": exchange.due_ns or None,
            "ready_ns": exchange.ready_ns or None,
            "sent_ns": sent or None,
            "connect_ns": exchange.connect_ns,
            "headers_ns": headers_ns,
            "first_event_ns": self._first_event_ns,
            "first_token_ns": self.stamps_ns[0] if self.stamps_ns else None,
            "first_answer_ns": self._first_answer_ns,
            "last_token_ns": self.stamps_ns[-1] if self.stamps_ns else self._whole_ns,
            "end_ns": exchange.end_ns or None,
            "outcome": str(self._outcome),
            "detail": clean(self._detail, self._secret),
            "flags": self._flags,
            "http_status": response.status,
            "finish_reason": self._finish_reason and clean(self._finish_reason),
            "response_model": self._response_model and clean(self._response_model),
            "asked_input_tokens": exchange.asked_input_tokens,
            "asked_output_tokens": exchange.asked_output_tokens,
            "input_tokens": input_tokens,
            "cached_tokens": cached,
            "output_tokens": output_tokens,
            "reasoning_tokens": reasoning,
            "token_source": source,
            "events": len(self.stamps_ns),
            "event_offsets_ns": [stamp - sent for stamp in self.stamps_ns],
            "event_tokens": self._event_tokens if len(self._event_tokens) == len(self.stamps_ns) > 0 else None,
            "bytes_in": response.bytes_in,
            "retried": exchange.retried,
            "server_prompt_ms": _number(self._timings.get("prompt_ms")),
            "server_decode_ms": _number(self._timings.get("predicted_ms")),
        }

    # outcome

    def _read(self) -> tuple[Outcome, str]:
        exchange = self._exchange
        try:
            exchange.response.feed()
            self._check_head()
            self._read_body()
            self._check_end()
        except ProtocolError as error:
            return exchange.outcome or Outcome.PROTOCOL_ERROR, exchange.detail or str(error)
        except (TooManyBytes, EventTooLarge):
            return exchange.outcome or Outcome.TOO_LARGE, exchange.detail or "the answer went over a size limit"
        except _Ended as end:
            if exchange.outcome in (None, Outcome.TRUNCATED, Outcome.CLOSED_EARLY, Outcome.RESET):
                return end.outcome, end.detail
        finally:
            exchange.response.release()
        return exchange.outcome or Outcome.OK, exchange.detail

    def _check_head(self) -> None:
        """Raises _Ended for every status that is not a success."""
        response = self._exchange.response
        status = response.status
        if status is None:
            raise _Ended(self._exchange.outcome or Outcome.CLOSED_EARLY, self._exchange.detail)
        if status == 204:
            raise _Ended(Outcome.EMPTY, "204 No Content")
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            place = response.headers.get(b"location", b"").decode("latin-1")
            raise _Ended(
                Outcome.HTTP_ERROR, f"{status} redirect to {place or 'nowhere'}: it is never followed; use that URL"
            )
        words = f"{status} {self._error_words()}"
        if status in (401, 403):
            raise _Ended(Outcome.AUTH_ERROR, words)
        if status == 402 or (status == 429 and "quota" in words.lower()):
            raise _Ended(Outcome.QUOTA_ERROR, words)
        raise _Ended(Outcome.HTTP_ERROR, words)

    def _error_words(self) -> str:
        raw = b"".join(piece for _, piece in self._exchange.response.body[:64])[:4096]
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return re.sub(r"<[^>]*>", " ", raw.decode("utf-8", "replace"))
        error = body.get("error", body) if isinstance(body, dict) else body
        if isinstance(error, dict):
            return str(error.get("message") or error.get("detail") or error)
        return str(error)

    def _read_body(self) -> None:
        content_type = self._exchange.response.headers.get(b"content-type", b"").decode("latin-1").lower()
        charset = re.search(r"charset=\"?([\w-]+)", content_type)
        if charset and charset[1] not in ("utf-8", "utf8", "us-ascii"):
            raise _Ended(Outcome.DECODE_ERROR, f"charset {charset[1]}: an event stream is UTF-8")
        body = self._exchange.response.body
        if not content_type:
            self._flag("content_type_missing")
            content_type = "application/json" if _looks_whole(body) else "text/event-stream"
        if "text/event-stream" in content_type:
            self._read_stream()
        elif "json" in content_type:
            self._read_whole()
        elif body:
            raise _Ended(Outcome.BAD_CONTENT_TYPE, f"content type {content_type}; an event stream was expected")

    def _check_end(self) -> None:
        """Raises _Ended unless the answer is whole and has content."""
        response = self._exchange.response
        ended = self._done or bool(self._finish_reason and response.complete)
        if self._exchange.outcome not in (None, Outcome.TRUNCATED, Outcome.CLOSED_EARLY, Outcome.RESET):
            return
        if self._streamed and not ended:
            reset = self._exchange.outcome is Outcome.RESET
            raise _Ended(Outcome.RESET if reset else Outcome.TRUNCATED, "the stream ended without its end mark")
        if not self._streamed and not response.complete:
            raise _Ended(Outcome.TRUNCATED, "the body ended early")
        if not response.complete:
            self._flag("unclean_close")
        if self._finish_reason == "content_filter":
            raise _Ended(Outcome.FILTERED, "the content filter stopped the answer")
        if not self.stamps_ns and self._whole_ns is None:
            raise _Ended(Outcome.EMPTY, "no token in the answer")
        self._exchange.outcome = None

    # body

    def _decoded(self) -> Iterator[Read]:
        """The body in pieces of bounded size; gzip and deflate undone although they were not asked for."""
        response = self._exchange.response
        encoding = response.headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding in (b"", b"identity"):
            yield from response.body
            return
        if encoding not in (b"gzip", b"deflate", b"x-gzip"):
            raise _Ended(Outcome.DECODE_ERROR, f"content encoding {encoding.decode('latin-1')} was not asked for")
        self._flag("compressed")
        inflater, total = zlib.decompressobj(_GZIP_WBITS), 0
        for read, piece in response.body:
            while piece:
                try:
                    data = inflater.decompress(piece, _INFLATE_BYTES)
                except zlib.error as error:
                    raise _Ended(Outcome.DECODE_ERROR, f"broken compression: {error}") from None
                total += len(data)
                if total > MAX_BODY_BYTES:
                    raise TooManyBytes
                yield read, data
                piece = inflater.unconsumed_tail

    def _read_stream(self) -> None:
        decoder, repeat = Decoder(), Repeat()
        reads = self._exchange.response.reads
        for read, piece in self._decoded():
            text = repeat.text(piece) if decoder.idle else None
            if text is not None:
                self.texts.append(text)
                self.stamps_ns.append(reads[read][0])
                self._usage_since_token = False
                continue
            whole = decoder.idle
            events = decoder.feed(piece, read)
            for event in events:
                self._read_event(event, reads[read][0])
            if whole and decoder.idle and len(events) == 1 and self._plain is not None and not self._done:
                repeat.learn(piece, self._plain)
            else:
                repeat.forget()
        tail = decoder.tail()
        if tail is not None and tail.data.strip() == b"[DONE]" and not self._done:
            self._done = True
            self._flag("unterminated_done")

    def _read_event(self, event: Event, stamp_ns: int) -> None:
        self._plain = None
        if self._first_event_ns is None:
            self._first_event_ns = stamp_ns
        if self._done:
            self._flag("data_after_done")
            return
        if event.data == b"[DONE]":
            self._done = True
            return
        chunk = _json(event.data)
        if event.name == b"error":
            raise _Ended(Outcome.INBAND_ERROR, str(chunk.get("error", chunk) if isinstance(chunk, dict) else chunk))
        self._take(self._shaped(self._form.read, chunk), stamp_ns)

    def _read_whole(self) -> None:
        self._streamed = False
        self._flag("not_streaming")
        if not self._exchange.response.complete:
            return
        text = b"".join(piece for _, piece in self._decoded())
        delta = self._shaped(self._form.read_whole, _json(text))
        self._keep(delta)
        if delta.generated:
            self.texts.append(delta.reasoning + delta.content + delta.other)
            self._whole_ns = self._exchange.response.reads[self._exchange.response.body[-1][0]][0]

    def _shaped(self, read: Callable[[Any], Delta], chunk: Any) -> Delta:
        try:
            return read(chunk)
        except BadPayload as error:
            raise _Ended(Outcome.BAD_PAYLOAD, str(error)) from None
        except InbandError as error:
            raise _Ended(Outcome.INBAND_ERROR, str(error)) from None

    def _take(self, delta: Delta, stamp_ns: int) -> None:
        self._plain = delta.plain_text
        before = self._usage_tokens
        self._keep(delta)
        grown = delta.usage is not None and self._usage_tokens > before
        if delta.generated:
            self.texts.append(delta.reasoning + delta.content + delta.other)
            if delta.content and self._first_answer_ns is None:
                self._first_answer_ns = stamp_ns
        elif not (grown and delta.choices and self._finish_reason is None):
            return
        self.stamps_ns.append(stamp_ns)
        self._usage_since_token = False
        if grown:
            self._event_tokens.append(self._usage_tokens - before)

    def _keep(self, delta: Delta) -> None:
        self._finish_reason = delta.finish_reason or self._finish_reason
        self._response_model = delta.model or self._response_model
        self._timings = delta.timings or self._timings
        if delta.usage is None:
            return
        tokens = _count(delta.usage.get("completion_tokens"))
        if self._usage_since_token and not delta.generated and self._usage != delta.usage:
            self._flag("usage_conflict")
        self._usage = delta.usage
        self._usage_since_token = not delta.generated
        self._usage_tokens = tokens or 0

    # tokens

    def _tokens(self) -> tuple[int | None, int | None, int | None, int | None, str]:
        """(input, cached, output, reasoning, source). Flags what a server says that cannot be."""
        if self._response_model and self._model and self._response_model != self._model:
            self._flag("model_mismatch")
        usage = self._usage or {}
        output = _count(usage.get("completion_tokens"))
        has_text = bool(self.texts)
        if self._usage is not None and (output is None or (output == 0 and has_text)):
            self._flag("bad_usage")
            output = None
        source = "usage" if output is not None else "unknown"
        if output is None and has_text and self._count_tokens:
            output, source = self._count_tokens("".join(self.texts)), "tokenizer"
        cached = _count(_member(usage, "prompt_tokens_details", "cached_tokens"))
        reasoning = _count(_member(usage, "completion_tokens_details", "reasoning_tokens"))
        if self._outcome is Outcome.OK and self._finish_reason == "length" and output is not None:
            if output < self._exchange.asked_output_tokens:
                self._flag("length_early")
        elif self._outcome is Outcome.OK and output is not None and output < self._exchange.asked_output_tokens:
            self._flag("stopped_early")
        return _count(usage.get("prompt_tokens")), cached, output, reasoning, source

    def _flag(self, name: str) -> None:
        if name not in self._flags:
            self._flags.append(name)


def _looks_whole(pieces: list[Read]) -> bool:
    return bool(pieces) and pieces[0][1].lstrip()[:1] in (b"{", b"[")


def _member(usage: dict[str, Any], outer: str, inner: str) -> Any:
    details = usage.get(outer)
    return details.get(inner) if isinstance(details, dict) else None


def _count(value: Any) -> int | None:
    """A plausible token count; anything else is missing."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_TOKENS:
        return value
    return None


def _number(value: Any) -> float | None:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12 else None
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:  # orjson refuses lone surrogates and huge integers, which are JSON all the same
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise _Ended(Outcome.DECODE_ERROR, f"not UTF-8: {error.reason}") from None
    except (ValueError, RecursionError):
        shown = data[:80].decode("utf-8", "replace")
        raise _Ended(Outcome.PARSE_ERROR, f"not JSON: {shown}") from None
