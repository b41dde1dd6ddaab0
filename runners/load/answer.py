"""From what came back to the row that is kept: outcome, stamps, tokens. Runs off the hot path."""

import re
from time import time
from typing import Any

import numpy as np

from runners.load import body
from runners.load.body import Content, DecodeError, NotJson
from runners.load.dates import skew_s
from runners.load.dialects import BadPayload, DialectForm, InbandError
from runners.load.dialects.base import error_text
from runners.load.exchange import Exchange
from runners.load.framing import TooManyBytes
from runners.load.outcomes import Outcome
from runners.load.repeats import repeats
from runners.load.sse import Event, EventTooLarge, StreamDecoder
from runners.load.stamped import StampedBytes
from runners.load.tokens import CountTokens
from runners.load.transcript import Transcript

_DETAIL_CHARS = 300
_MASK = "[key]"
_TELLING_CHARS = 4
_ERROR_BYTES = 4096
_MAX_SKEW_S = 120.0
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_WHOLE_JSON = re.compile(r"[/+]json\s*(;|$)")
_CHARSET = re.compile(r"charset=\"?([\w-]+)")
_TRANSPORT_ENDS = (None, Outcome.TRUNCATED, Outcome.CLOSED_EARLY, Outcome.RESET)


class _Ended(Exception):
    """Reading stops here with an outcome."""

    def __init__(self, outcome: Outcome, detail: str = "") -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


def mask(text: str, secret: str) -> str:
    """``text`` without the secret, nor the first part of it where the text breaks off within."""
    if not secret or secret[:_TELLING_CHARS].lower() not in text.lower():
        return text
    text = re.sub(re.escape(secret), _MASK, text, flags=re.IGNORECASE)
    for length in range(len(secret) - 1, _TELLING_CHARS - 1, -1):
        if text[-length:].lower() == secret[:length].lower():
            return text[:-length] + _MASK
    return text


def clean(text: str, secret: str = "") -> str:
    """One printable line of bounded length; a secret that a server echoes is cut out first."""
    return " ".join(_UNPRINTABLE.sub(" ", mask(text, secret)).split())[:_DETAIL_CHARS]


def row_of(
    exchange: Exchange,
    form: DialectForm,
    *,
    streams: bool = True,
    count_tokens: CountTokens | None = None,
    secret: str = "",
) -> dict[str, Any]:
    """The row of an exchange, whatever the server sent: an answer that breaks its reading is a bad_payload."""
    return row_and_answer(exchange, form, streams=streams, count_tokens=count_tokens, secret=secret)[0]


def row_and_answer(
    exchange: Exchange,
    form: DialectForm,
    *,
    streams: bool = True,
    count_tokens: CountTokens | None = None,
    secret: str = "",
) -> tuple[dict[str, Any], "Answer"]:
    """The same, and what was read."""
    try:
        answer = Answer(exchange, form, streams=streams, count_tokens=count_tokens, secret=secret)
        return answer.row(), answer
    except Exception as error:  # one answer must never end a run
        exchange.response = exchange.response.unread()
        exchange.outcome = None
        exchange.fail(Outcome.BAD_PAYLOAD, f"the answer cannot be read ({type(error).__name__})")
        answer = Answer(exchange, form, streams=streams, secret=secret)
        return answer.row(), answer


class Answer:
    """Reads one exchange's response. ``row`` gives the record in the columns of ``runners.load.records``, ``said`` is
    what the answer said.
    """

    def __init__(
        self,
        exchange: Exchange,
        form: DialectForm,
        *,
        streams: bool = True,
        count_tokens: CountTokens | None = None,
        secret: str = "",
    ) -> None:
        self._exchange = exchange
        self._form = form
        self._streams = streams
        self._count_tokens = count_tokens
        self._secret = secret
        self.said = Transcript()
        self._first_event_ns: int | None = None
        self._outcome, self._detail = self._read()

    def row(self) -> dict[str, Any]:
        """The record: plain values and an array of int64 offsets, None where a thing never happened."""
        exchange, response, said = self._exchange, self._exchange.response, self.said
        output_tokens, counted_tokens, source = self._output_tokens()
        self._flag_surprises(output_tokens)
        sent, stamps, usage = exchange.sent_ns, said.stamps_ns, said.usage
        return {
            "stage": exchange.stage,
            "index": exchange.index,
            "warmup": exchange.warmup,
            "model": exchange.model,
            "address": exchange.address or None,
            "due_ns": exchange.due_ns or None,
            "ready_ns": exchange.ready_ns or None,
            "sent_ns": sent or None,
            "connect_ns": exchange.connect_ns,
            "headers_ns": None if response.headers_read is None else response.stamps_ns[response.headers_read],
            "first_event_ns": self._first_event_ns,
            "first_token_ns": stamps[0] if stamps else None,
            "first_answer_ns": said.first_answer_ns,
            "last_token_ns": stamps[-1] if stamps else said.whole_ns,
            "end_ns": exchange.end_ns or None,
            "outcome": str(self._outcome),
            "detail": clean(self._detail, self._secret),
            "flags": said.flags,
            "http_status": response.status,
            "finish_reason": said.finish_reason and clean(said.finish_reason, self._secret),
            "response_model": said.model and clean(said.model, self._secret),
            "asked_input_tokens": exchange.asked_input_tokens,
            "asked_output_tokens": exchange.asked_output_tokens,
            "input_tokens": usage.prompt if usage else None,
            "cached_tokens": usage.cached if usage else None,
            "output_tokens": output_tokens,
            "reasoning_tokens": said.reasoning_tokens,
            "counted_tokens": counted_tokens,
            "token_source": source,
            "events": len(stamps),
            "event_offsets_ns": np.array(stamps, dtype=np.int64) - sent,
            "event_tokens": said.events_tokens,
            "event_choices": said.choices if stamps and said.several_choices else None,
            "bytes_in": response.bytes_in,
            "retried": exchange.retried,
            "server_prompt_ms": said.timings.prompt_ms,
            "server_decode_ms": said.timings.decode_ms,
        }

    # outcome

    def _read(self) -> tuple[Outcome, str]:
        exchange = self._exchange
        try:
            self._check_head()
            self._read_body()
            self._check_end()
        except (TooManyBytes, EventTooLarge):
            if exchange.outcome in _TRANSPORT_ENDS:
                return Outcome.TOO_LARGE, "the answer went over a size limit"
        except _Ended as end:
            if exchange.outcome in _TRANSPORT_ENDS:
                return end.outcome, end.detail
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
        wait = response.headers.get(b"retry-after", b"").decode("latin-1")
        raise _Ended(Outcome.HTTP_ERROR, f"{words} (Retry-After: {wait})" if wait else words)

    def _error_words(self) -> str:
        raw = self._exchange.response.body().data
        try:
            said = body.parse(raw)
        except (DecodeError, NotJson):
            text = mask(raw.decode("utf-8", "replace"), self._secret)[:_ERROR_BYTES]
            return _TAG.sub(" ", text)
        return error_text(said.get("error", said) if isinstance(said, dict) else said)

    def _check_end(self) -> None:
        """Raises _Ended unless the answer is whole and has content."""
        exchange, response, said = self._exchange, self._exchange.response, self.said
        if exchange.outcome not in _TRANSPORT_ENDS:
            return
        closed = response.complete and bool(said.finish_reason or self._form.ends_by_close)
        if self._streams and not (said.done or closed):
            reset = exchange.outcome is Outcome.RESET
            raise _Ended(Outcome.RESET if reset else Outcome.TRUNCATED, "the stream ended without its end mark")
        if not self._streams and not response.complete:
            raise _Ended(Outcome.TRUNCATED, "the body ended early")
        if not response.complete:
            said.flag("unclean_close")
        if said.finish_reason == "content_filter":
            raise _Ended(Outcome.FILTERED, "the content filter stopped the answer")
        if not said.stamps_ns and said.whole_ns is None:
            raise _Ended(Outcome.EMPTY, f"no {'token' if self._form.generates else 'result'} in the answer")
        exchange.outcome = None

    # body

    def _read_body(self) -> None:
        """Raises _Ended, ProtocolError, TooManyBytes, EventTooLarge."""
        asked_stream, self._streams = self._streams, self._comes_as_stream()
        if asked_stream and not self._streams:
            self.said.flag("not_streaming")
        if self._streams and not asked_stream:
            raise _Ended(Outcome.BAD_CONTENT_TYPE, "a stream came back although one whole answer was asked for")
        if body.compressed(self._exchange.response):
            self.said.flag("compressed")
        try:
            if self._streams:
                self._read_stream()
            elif self._exchange.response.complete:
                self._read_whole()
        except DecodeError as error:
            raise _Ended(Outcome.DECODE_ERROR, str(error)) from None
        except NotJson as error:
            raise _Ended(Outcome.PARSE_ERROR, str(error)) from None
        except BadPayload as error:
            raise _Ended(Outcome.BAD_PAYLOAD, str(error)) from None
        except InbandError as error:
            raise _Ended(Outcome.INBAND_ERROR, str(error)) from None

    def _comes_as_stream(self) -> bool:
        """By the content type; without one by what was asked for and the first byte. Raises _Ended."""
        response, framing = self._exchange.response, self._form.framing
        kind = response.headers.get(b"content-type", b"").decode("latin-1").lower()
        charset = _CHARSET.search(kind)
        if charset and charset[1] not in ("utf-8", "utf8", "us-ascii"):
            raise _Ended(Outcome.DECODE_ERROR, f"charset {charset[1]}: an answer is UTF-8")
        if not kind:
            self.said.flag("content_type_missing")
            starts_as_json = self._exchange.response.body().data.lstrip()[:1] in (b"{", b"[")
            return self._streams and (framing.bare_json or not starts_as_json)
        if any(one in kind for one in framing.content_types):
            return True
        if not _WHOLE_JSON.search(kind) and response.body().data:
            wanted = framing.content_types[0] if self._streams else "application/json"
            raise _Ended(Outcome.BAD_CONTENT_TYPE, f"content type {kind}; {wanted} was expected")
        return False

    def _read_stream(self) -> None:
        content = Content(self._exchange.response)
        while True:
            decoder = self._form.framing.decoder(content.came.data)
            self._read_events(content.came, decoder)
            if not content.go_on(decoder.at):
                break
        tail = decoder.tail()
        if tail is not None and not self.said.done:
            self._read_tail(tail, content.came.stamp_ns(tail.end))

    def _read_events(self, came: StampedBytes, decoder: StreamDecoder) -> None:
        said = self.said
        while event := decoder.next():
            self._read_event(event, came.stamp_ns(event.end))
            if said.plain is not None and not said.done:
                more = repeats(came, event, said.plain)
                if more:
                    said.again(more.text, more.stamps_ns)
                    decoder.at = more.end

    def _read_event(self, event: Event, stamp_ns: int) -> None:
        said = self.said
        said.plain = None
        if self._first_event_ns is None:
            self._first_event_ns = stamp_ns
        if said.done:
            said.flag("data_after_done")
            return
        if event.data == self._form.end_mark:
            said.done = True
            return
        chunk = body.parse(event.data)
        if event.name == b"error":
            raise InbandError(error_text((chunk.get("error") or chunk) if isinstance(chunk, dict) else chunk))
        delta = self._form.read(chunk)
        if delta.usage and event.data.count(b'"usage"') > 1 and body.repeats_a_key(event.data):
            said.flag("repeated_key")
        said.take(delta, stamp_ns)

    def _read_tail(self, tail: Event, stamp_ns: int) -> None:
        """A last event without its closing line: with server-sent events only the end mark counts."""
        if self._form.framing.bare_json:
            self._read_event(tail, stamp_ns)
        elif tail.data.strip() == self._form.end_mark or self._is_end(tail.data):
            self.said.done = True
            self.said.flag("unterminated_done")

    def _is_end(self, data: bytes) -> bool:
        try:
            return self._form.read(body.parse(data)).done
        except (DecodeError, NotJson, BadPayload, InbandError):
            return False

    def _read_whole(self) -> None:
        content = Content(self._exchange.response)
        data = content.whole()
        delta = self._form.read_whole(body.parse(data))
        self.said.take_whole(delta, content.came.stamp_ns(len(data)))

    # tokens

    def _output_tokens(self) -> tuple[int | None, int | None, str]:
        """(output tokens, tokens by the tokenizer, where the first comes from)."""
        said = self.said
        counted = said.counted_tokens(self._count_tokens) if self._count_tokens and said.texts else None
        told = said.output_tokens()
        if told is not None:
            if counted is not None:
                said.compare(told, counted)
            return told, counted, "usage"
        return counted, counted, "unknown" if counted is None else "tokenizer"

    def _flag_surprises(self, output_tokens: int | None) -> None:
        said, asked = self.said, self._exchange
        if said.model and asked.model and said.model != asked.model:
            said.flag("model_mismatch")
        off_s = skew_s(asked.response.headers.get(b"date", b""), time())
        if off_s is not None and abs(off_s) > _MAX_SKEW_S:
            said.flag("clock_skew")
        if self._outcome is Outcome.OK and output_tokens is not None and output_tokens < asked.asked_output_tokens:
            said.flag("length_early" if said.finish_reason == "length" else "stopped_early")
