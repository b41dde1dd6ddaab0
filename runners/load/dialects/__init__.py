"""The wire forms of serving endpoints, one module each, registered here."""

from runners.load.dialects import (
    anthropic_messages,
    llamacpp,
    ollama,
    openai_chat,
    openai_completions,
    openai_embeddings,
    openai_responses,
    rerank,
    tgi,
    triton,
)
from runners.load.dialects.base import Ask, BadPayload, Delta, DialectForm, InbandError, Timings, Usage
from runners.spec import Dialect

_FORMS: dict[Dialect, DialectForm] = {
    Dialect.OPENAI_CHAT: openai_chat.FORM,
    Dialect.OPENAI_COMPLETIONS: openai_completions.FORM,
    Dialect.OPENAI_RESPONSES: openai_responses.FORM,
    Dialect.ANTHROPIC_MESSAGES: anthropic_messages.FORM,
    Dialect.OLLAMA_CHAT: ollama.CHAT,
    Dialect.OLLAMA_GENERATE: ollama.GENERATE,
    Dialect.TGI_GENERATE: tgi.FORM,
    Dialect.TRITON_GENERATE: triton.FORM,
    Dialect.LLAMACPP_COMPLETION: llamacpp.FORM,
    Dialect.OPENAI_EMBEDDINGS: openai_embeddings.FORM,
    Dialect.RERANK: rerank.FORM,
}

__all__ = ["Ask", "BadPayload", "Delta", "DialectForm", "InbandError", "Timings", "Usage", "form"]


def form(dialect: Dialect) -> DialectForm:
    return _FORMS[dialect]
