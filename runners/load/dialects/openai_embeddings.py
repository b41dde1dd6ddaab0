"""OpenAI embeddings: POST /v1/embeddings. No tokens come back: request latency and throughput only."""

from typing import Any

from runners.load.dialects.base import Ask, Delta, DialectForm, list_of, refuse_error, text_of
from runners.load.dialects.openai_common import usage_of


def _body(ask: Ask) -> dict[str, Any]:
    return {"model": ask.model, "input": ask.prompt, "encoding_format": "float"}


def _read_whole(answer: Any) -> Delta:
    said = refuse_error(answer)
    return Delta(
        results=len(list_of(said.get("data"), "data")),
        usage=usage_of(said.get("usage")),
        model=text_of(said.get("model"), "model") or None,
    )


FORM = DialectForm(
    path="/embeddings", body=_body, read_whole=_read_whole, generates=False, optional=("encoding_format",)
)
