"""How a request can end: one closed list, each with words for people."""

from enum import StrEnum


class Outcome(StrEnum):
    OK = "ok"
    DNS_ERROR = "dns_error"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_FAILED = "connect_failed"
    TIMEOUT_CONNECT = "timeout_connect"
    TIMEOUT_FIRST_BYTE = "timeout_first_byte"
    TIMEOUT_IDLE = "timeout_idle"
    TIMEOUT_TOTAL = "timeout_total"
    TIMEOUT_WRITE = "timeout_write"
    PROXY_ERROR = "proxy_error"
    TLS_ERROR = "tls_error"
    HTTP_ERROR = "http_error"
    AUTH_ERROR = "auth_error"
    QUOTA_ERROR = "quota_error"
    PROTOCOL_ERROR = "protocol_error"
    TRUNCATED = "truncated"
    RESET = "reset"
    CLOSED_EARLY = "closed_early"
    INBAND_ERROR = "inband_error"
    PARSE_ERROR = "parse_error"
    DECODE_ERROR = "decode_error"
    BAD_PAYLOAD = "bad_payload"
    BAD_CONTENT_TYPE = "bad_content_type"
    EMPTY = "empty"
    FILTERED = "filtered"
    TOO_LARGE = "too_large"
    POLICY_BLOCKED = "policy_blocked"
    CLIENT_SATURATED = "client_saturated"
    CANCELLED = "cancelled"
    NOT_SENT = "not_sent"


HELP: dict[Outcome, str] = {
    Outcome.OK: "A complete answer: success status, at least one token, an end mark, a clean connection.",
    Outcome.DNS_ERROR: "The host name does not resolve. Check the URL's spelling and this machine's DNS.",
    Outcome.CONNECT_REFUSED: "Nothing listens at that address and port. Start the server, or correct the port.",
    Outcome.CONNECT_FAILED: "The network gave no way to that address. Check routes and firewalls.",
    Outcome.TIMEOUT_CONNECT: "No connection within the connect limit: a firewall drops packets, or the host is down.",
    Outcome.TIMEOUT_FIRST_BYTE: "Connected and sent, but no byte came back in time: the server hangs or is overloaded.",
    Outcome.TIMEOUT_IDLE: "The stream began, then fell silent for longer than the idle limit.",
    Outcome.TIMEOUT_TOTAL: "The request took longer than the total limit.",
    Outcome.TIMEOUT_WRITE: "The server did not take the request's bytes in time.",
    Outcome.PROXY_ERROR: "The configured proxy gave no way to the endpoint, which was not asked: see the detail.",
    Outcome.TLS_ERROR: "The TLS connection could not be made: see the detail for which check failed.",
    Outcome.HTTP_ERROR: "The server answered with an error status.",
    Outcome.AUTH_ERROR: "401 or 403: the API key is missing or not accepted.",
    Outcome.QUOTA_ERROR: "The account's quota or money is used up.",
    Outcome.PROTOCOL_ERROR: "What came back is not valid HTTP. Is this an HTTP server? http or https?",
    Outcome.TRUNCATED: "The stream ended without its end mark: the answer is incomplete.",
    Outcome.RESET: "The connection was reset. If every request ends so: http or https?",
    Outcome.CLOSED_EARLY: "The server closed the connection before it answered. Is it an LLM server? http or https?",
    Outcome.INBAND_ERROR: "Status 200, but the stream carried an error object.",
    Outcome.PARSE_ERROR: "An event of the stream is not JSON.",
    Outcome.DECODE_ERROR: "The bytes are not UTF-8, or come in an encoding that was not asked for.",
    Outcome.BAD_PAYLOAD: "JSON, but not in the shape of this dialect. Is the dialect right?",
    Outcome.BAD_CONTENT_TYPE: "The answer's content type is not that of an LLM endpoint. Is the URL right?",
    Outcome.EMPTY: "Success status, but no token at all.",
    Outcome.FILTERED: "The server's content filter stopped the answer.",
    Outcome.TOO_LARGE: "The answer went over a size limit.",
    Outcome.POLICY_BLOCKED: "An address that must never be contacted (link-local, metadata service, multicast).",
    Outcome.CLIENT_SATURATED: "This machine ran out of sockets, ports or file descriptors: not the server's fault.",
    Outcome.CANCELLED: "Stopped by the user or by the end of the stage while in flight.",
    Outcome.NOT_SENT: "Planned, but never sent.",
}

#: Ends that make every further request pointless: the stage stops at once.
FATAL = frozenset({Outcome.AUTH_ERROR, Outcome.QUOTA_ERROR, Outcome.POLICY_BLOCKED, Outcome.DNS_ERROR})

#: Ends that many in a row make a stage pointless: the endpoint is not there.
UNREACHABLE = frozenset({Outcome.CONNECT_REFUSED, Outcome.CONNECT_FAILED, Outcome.PROXY_ERROR})
