"""Bad input below the events: connections, status lines, headers, framing, compression."""

import gzip
import json
import time
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache

from tests.services.bad_input import FINISHED, GOOD_STREAM, WHOLE, Case, event
from tests.services.misbehaving import Script, Wire, content, event_stream, good, hang_mid_stream, json_body, silent

BOMB_MB = 100
BOMBS = {"gzip_bomb": b"\0", "gzip_bomb/notes": b": " + b"note" * 250 + b"\n"}
PAUSE_S = 0.06


def raw(data: bytes) -> Script:
    return lambda wire: wire.raw(data)


def closes(wire: Wire) -> None:
    wire.sock.close()


def after(interim: bytes) -> Script:
    """A good answer behind interim ones."""

    def script(wire: Wire) -> None:
        wire.raw(interim)
        good(wire)

    return script


def header_drip(wire: Wire) -> None:
    wire.raw(b"HTTP/1.1 200 OK\r\n")
    for number in range(40):
        wire.raw(b"X-%d: y\r\n" % number)
        time.sleep(0.1)


def numbered(count: int) -> list[str]:
    return [f"X-{number}: y" for number in range(count)]


def typed(kind: str | None) -> Script:
    def script(wire: Wire) -> None:
        wire.head(kind=kind)
        wire.chunk(GOOD_STREAM)
        wire.end()

    return script


def redirect(status: str, place: str) -> Script:
    return json_body(b"", status, "text/plain", f"Location: {place}")


def refusal(status: str, message: str, *headers: str) -> Script:
    return json_body({"error": {"message": message}}, status, "application/json", *headers)


def busy(retry_after: str) -> Case:
    script = refusal("429 Too Many", "slow down", f"Retry-After: {retry_after}")
    return Case(script, "http_error", detail=f"429 slow down (Retry-After: {retry_after})")


def begun(*more: bytes, finish: bool = False) -> Script:
    """One token, then these bytes, then the end of the connection."""

    def script(wire: Wire) -> None:
        wire.head()
        wire.words("a")
        if finish:
            wire.event(FINISHED)
            wire.event(b"[DONE]")
        for piece in more:
            wire.raw(piece)

    return script


def chunked(head: bytes, tail: bytes) -> Script:
    def script(wire: Wire) -> None:
        wire.head()
        wire.raw(head + GOOD_STREAM + b"\r\n" + tail)

    return script


def negative_chunk(wire: Wire) -> None:
    wire.head()
    wire.raw(b"-5\r\n" + event(content("a")) + b"\r\n")


def of_length(length: str, body: bytes, *more: str) -> Script:
    def script(wire: Wire) -> None:
        wire.head(f"Content-Length: {length}", *more, chunked=False)
        wire.raw(body)

    return script


def paced(wire: Wire, head: bytes) -> None:
    wire.raw(head + b"\r\n\r\n")
    for piece in GOOD_STREAM.split(b"\n\n")[:-1]:
        wire.raw(piece + b"\n\n")
        time.sleep(PAUSE_S)


def http10(wire: Wire) -> None:
    paced(wire, b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream")


def known_length_with_pauses(wire: Wire) -> None:
    paced(wire, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d" % len(GOOD_STREAM))


def reset_mid_stream(wire: Wire) -> None:
    wire.head()
    wire.words("a")
    time.sleep(0.1)
    wire.reset()


def two_responses(wire: Wire) -> None:
    answer = json.dumps(WHOLE).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    wire.raw(head % (len(answer), answer) * 2)


def gzip_stream(wire: Wire) -> None:
    wire.head("Content-Encoding: gzip")
    deflater = zlib.compressobj(wbits=31)
    for piece in GOOD_STREAM.split(b"\n\n")[:-1]:
        wire.chunk(deflater.compress(piece + b"\n\n") + deflater.flush(zlib.Z_SYNC_FLUSH))
        time.sleep(PAUSE_S)
    wire.end()


def gzip_cut(wire: Wire) -> None:
    whole = gzip.compress(GOOD_STREAM)
    of_length(str(len(whole) // 2), whole[: len(whole) // 2], "Content-Encoding: gzip")(wire)


@cache
def bomb(name: str) -> bytes:
    """A block over and over, BOMB_MB in all; takes a second to make."""
    deflater = zlib.compressobj(wbits=31)
    block = BOMBS[name] * (1_000_000 // len(BOMBS[name]))
    return b"".join([deflater.compress(block) for _ in range(BOMB_MB)]) + deflater.flush()


def gzip_bomb(name: str) -> Script:
    def script(wire: Wire) -> None:
        wire.head("Content-Encoding: gzip")
        wire.chunk(bomb(name))
        wire.end()

    return script


def dated(date: str) -> Script:
    return event_stream(GOOD_STREAM, f"Date: {date}")


THREE_DAYS_AGO = format_datetime(datetime.now(UTC) - timedelta(days=3), usegmt=True)
ELSEWHERE = "http://169.254.169.254/"
PAGE = json_body(b"<html><h1>Bad gateway</h1></html>", "502 Bad Gateway", "text/html")
PLAIN_REFUSED = json_body(b"<html>HTTP request to an HTTPS port</html>", "400 Bad Request", "text/html")

#: What stands behind a slash is a variant of the same kind.
HTTP: dict[str, Case] = {
    "close_before_status": Case(closes, "closed_early"),
    "hang_before_first_byte": Case(silent, "timeout_first_byte"),
    "hang_mid_stream": Case(hang_mid_stream, "timeout_idle", 1),
    "reset_mid_stream": Case(reset_mid_stream, "reset", 1),
    "status_not_number": Case(raw(b"HTTP/1.1 abc OK\r\n\r\n"), "protocol_error"),
    "http_to_tls_port/alert": Case(raw(b"\x15\x03\x01\x00\x02\x02\x46"), "protocol_error"),
    "http_to_tls_port/400": Case(PLAIN_REFUSED, "http_error", detail="400 HTTP request to an HTTPS port"),
    "http_to_tls_port/closes": Case(closes, "closed_early"),
    "status_999": Case(json_body(b"{}", "999 Weird"), "http_error", detail="999"),
    "continue_100_x3": Case(after(b"HTTP/1.1 100 Continue\r\n\r\n" * 3), "ok", 2),
    "early_hints_103": Case(after(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), "ok", 2),
    "switching_101": Case(
        raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), "protocol_error"
    ),
    "no_content_204": Case(raw(b"HTTP/1.1 204 No Content\r\n\r\n"), "empty"),
    "headers_200": Case(event_stream(GOOD_STREAM, *numbered(200)), "ok", 2),
    "headers_200/400": Case(event_stream(GOOD_STREAM, *numbered(400)), "protocol_error", detail="256 header lines"),
    "header_drip": Case(header_drip, "timeout_total"),
    "header_nul_latin1": Case(raw(b"HTTP/1.1 200 OK\r\nX-A: \xff\x00b\r\n folded\r\n\r\n"), "protocol_error"),
    "header_nul_latin1/no nul": Case(event_stream(GOOD_STREAM, "X-A: \xffb"), "ok", 2),
    "header_nul_latin1/in a place": Case(redirect("302 Found", "http://\xff\x80\x9b/"), "http_error"),
    "redirect_307_metadata": Case(redirect("307 Temporary", ELSEWHERE), "http_error", detail=ELSEWHERE),
    "redirect_loop": Case(redirect("302 Found", "/v1/chat/completions"), "http_error", detail="never followed"),
    "redirect_http_downgrade": Case(redirect("301 Moved", "http://127.0.0.1:1/"), "http_error", detail="301 redirect"),
    "content_type_missing": Case(typed(None), "ok", 2, ("content_type_missing",)),
    "content_type_missing/html": Case(json_body(b"<html>hi</html>", "200 OK", "text/html"), "bad_content_type"),
    "charset_utf16": Case(typed("text/event-stream; charset=utf-16"), "decode_error"),
    "retry_after_seconds": busy("5"),
    "retry_after_http_date": busy("Wed, 21 Oct 2026 07:28:00 GMT"),
    "retry_after_bad/negative": busy("-1"),
    "retry_after_bad/nan": busy("NaN"),
    "retry_after_bad/years": busy("99999999"),
    "retry_after_bad/words": busy("soon"),
    "status_500_html": Case(PAGE, "http_error", detail="502 Bad gateway"),
    "status_401": Case(refusal("401 Unauthorized", "bad key sk-secret-key"), "auth_error", detail="bad key [key]"),
    "status_402_quota": Case(refusal("402 Payment Required", "pay"), "quota_error"),
    "status_402_quota/429": Case(refusal("429 Too Many", "insufficient_quota"), "quota_error"),
    "date_header_skew": Case(dated(THREE_DAYS_AGO), "ok", 2, ("clock_skew",)),
    "date_header_skew/no date": Case(dated("yesterday"), "ok", 2),
    "chunked_truncated": Case(begun(b'40\r\ndata: {"choi'), "truncated", 1),
    "chunked_no_terminal": Case(begun(), "truncated", 1),
    "chunked_no_terminal/done": Case(begun(finish=True), "ok", 1, ("unclean_close",)),
    "chunk_size_negative": Case(negative_chunk, "protocol_error"),
    "chunk_extension": Case(chunked(b"%x;foo=bar\r\n" % len(GOOD_STREAM), b"0\r\n\r\n"), "ok", 2),
    "trailers": Case(chunked(b"%x\r\n" % len(GOOD_STREAM), b"0\r\nX-T: 1\r\nX-U: 2\r\n\r\n"), "ok", 2),
    "content_length_long_body": Case(of_length("5", GOOD_STREAM), "truncated"),
    "content_length_negative": Case(event_stream(GOOD_STREAM, "Content-Length: -1"), "protocol_error"),
    "content_length_conflict": Case(of_length("5", b"123456789", "Content-Length: 9"), "protocol_error"),
    "http10_close_delimited": Case(http10, "ok", 2),
    "http10_close_delimited/no end": Case(raw(b"HTTP/1.0 200 OK\r\n\r\n" + event(content("a"))), "truncated", 1),
    "identity_with_length_slow": Case(known_length_with_pauses, "ok", 2),
    "pipelined_second_response": Case(two_responses, "ok", 0, ("not_streaming",)),
    "gzip_sse_flushed": Case(gzip_stream, "ok", 2, ("compressed",)),
    "gzip_truncated": Case(gzip_cut, "truncated"),
    "gzip_bomb": Case(gzip_bomb("gzip_bomb"), "too_large"),
    "gzip_bomb/notes": Case(gzip_bomb("gzip_bomb/notes"), "too_large"),
    "encoding_chain_50": Case(
        event_stream(GOOD_STREAM, "Content-Encoding: " + ", ".join(["gzip"] * 50)), "decode_error"
    ),
    "expect_100_ignored": Case(good, "ok", 2),
    "nonstream_reply_to_stream": Case(json_body(WHOLE), "ok", 0, ("not_streaming",)),
    "stream_reply_to_nonstream": Case(event_stream(GOOD_STREAM), "bad_content_type", stream=False),
}
