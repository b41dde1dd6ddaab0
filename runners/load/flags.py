"""What may be odd about an answer that ended well: one list, each with words for people."""

FLAGS: dict[str, str] = {
    "bad_usage": "the server's usage holds a count that cannot be true; it is left out",
    "clock_skew": "the server's Date is minutes off this machine's clock; no timing rests on either",
    "compressed": "the body came compressed although that was not asked for",
    "content_type_missing": "there was no content type; the bytes were read as what they look like",
    "data_after_done": "events came after the end mark; they are left out",
    "length_early": "the server says that the length limit ended the answer, but it is shorter than asked for",
    "model_mismatch": "the answer names another model than the request",
    "not_streaming": "the answer came in one piece although a stream was asked for: it has a latency, no TTFT, no gaps",
    "repeated_key": "an object that holds the usage names a member twice; the last one counts",
    "retried": "a kept connection died before any byte of the answer; the request went once more on a fresh one",
    "stopped_early": "the answer is shorter than asked for: the model ended it",
    "unclean_close": "the connection closed without the end that its framing asks for, after the end mark",
    "unterminated_done": "the end mark came without its closing blank line",
    "usage_conflict": "two final usage objects differ; the last one counts",
    "usage_disagrees": "the server's output tokens and the tokenizer's count of the text differ; both are kept",
}

#: Those that change what a stage's numbers mean, and so are told with them.
_TOLD = ("not_streaming", "bad_usage", "usage_disagrees")


def flag_reasons(counts: dict[str, int], ok: int) -> list[dict[str, str]]:
    """{code, text} of the flags that a reader of the numbers must know of."""
    return [
        {"code": name, "text": f"{counts[name]} of {ok} answers: {FLAGS[name]}"} for name in _TOLD if name in counts
    ]
