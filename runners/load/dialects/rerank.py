"""Rerank, in the form of Jina, Cohere, vLLM and llama.cpp: POST /v1/rerank. Request latency and throughput only."""

from typing import Any

from runners.load.dialects.base import Ask, Delta, DialectForm, Usage, count_of, list_of, member, refuse_error, text_of
from runners.load.dialects.openai_common import usage_of

#: The prompt's words are shared out evenly: one part is the query, the others are documents.
_DOCUMENTS = 10


def _body(ask: Ask) -> dict[str, Any]:
    words = ask.prompt.split()
    size = max(1, len(words) // (_DOCUMENTS + 1))
    parts = [" ".join(words[start : start + size]) for start in range(0, size * _DOCUMENTS, size)]
    documents = [part for part in (*parts[1:], " ".join(words[size * _DOCUMENTS :])) if part]
    return {"model": ask.model, "query": parts[0], "documents": documents or parts[:1]}


def _read_whole(answer: Any) -> Delta:
    said = refuse_error(answer)
    results = said.get("results", said.get("data"))
    return Delta(
        results=len(list_of(results, "results")),
        usage=_usage(said),
        model=text_of(said.get("model"), "model") or None,
    )


def _usage(answer: dict[str, Any]) -> Usage | None:
    """OpenAI's counts; Jina gives the total alone, Cohere puts it under meta."""
    usage = usage_of(answer.get("usage"))
    if usage and usage.prompt is not None:
        return usage
    total = count_of(member(answer, "usage", "total_tokens"))
    total = count_of(member(answer, "meta", "tokens", "input_tokens")) if total is None else total
    return Usage(prompt=total) if total is not None else None


FORM = DialectForm(path="/rerank", body=_body, read_whole=_read_whole, generates=False)
