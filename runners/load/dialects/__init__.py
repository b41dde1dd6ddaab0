"""The wire forms of serving endpoints, one module each, registered here."""

from runners.load.dialects import openai_chat, openai_completions
from runners.load.dialects.base import BadPayload, Delta, DialectForm, InbandError
from runners.spec import Dialect

_FORMS: dict[Dialect, DialectForm] = {
    Dialect.OPENAI_CHAT: openai_chat.FORM,
    Dialect.OPENAI_COMPLETIONS: openai_completions.FORM,
}

__all__ = ["BadPayload", "Delta", "DialectForm", "InbandError", "form"]


def form(dialect: Dialect) -> DialectForm:
    return _FORMS[dialect]
