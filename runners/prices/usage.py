"""Token usage as providers report it, turned into classes that do not overlap.

Providers count differently: Anthropic's ``input_tokens`` leaves cache tokens out, OpenAI's ``prompt_tokens`` holds
them; OpenAI's and Anthropic's output holds reasoning, Google's ``candidatesTokenCount`` and xAI's
``completion_tokens`` do not. Sources: the usage sections of the providers' API references.
"""

from dataclasses import dataclass
from enum import StrEnum

from runners.prices import Impossible


class Convention(StrEnum):
    """Whose way of counting the numbers follow."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GOOGLE = "google"
    XAI = "xai"

    @property
    def cache_inside_input(self) -> bool:
        return self is not Convention.ANTHROPIC

    @property
    def reasoning_inside_output(self) -> bool:
        return self in (Convention.OPENAI, Convention.ANTHROPIC)


def convention_of(provider: str) -> Convention:
    """By the provider's id in the price list; whoever is not known to differ counts as OpenAI does."""
    return {"anthropic": Convention.ANTHROPIC, "google": Convention.GOOGLE, "x-ai": Convention.XAI}.get(
        provider.lower(), Convention.OPENAI
    )


@dataclass(frozen=True)
class Usage:
    """Classes that add up: a token is in exactly one. ``output`` holds ``reasoning``, which is shown, never added."""

    uncached: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0

    @property
    def input(self) -> int:
        """All prompt tokens: what tiers look at."""
        return self.uncached + self.cache_read + self.cache_write + self.cache_write_1h


def usage_of(
    convention: Convention,
    *,
    input: int,
    output: int,
    cache_read: int = 0,
    cache_write: int = 0,
    cache_write_1h: int = 0,
    reasoning: int = 0,
    total: int | None = None,
) -> Usage:
    """The counts of a response in classes that do not overlap. Raises Impossible for counts that contradict.

    ``cache_write`` are writes kept for the shorter time (five minutes at Anthropic), ``cache_write_1h`` those for an
    hour. ``total``, where the provider tells it, must equal input and output together.
    """
    counts = {"input": input, "output": output, "cache_read": cache_read, "cache_write": cache_write,
              "cache_write_1h": cache_write_1h, "reasoning": reasoning}  # fmt: skip
    for name, count in counts.items():
        if count < 0:
            raise Impossible(f"{name}: {count} tokens is below 0.", "Give 0 or more.")
    cached = cache_read + cache_write + cache_write_1h
    uncached = input - cached if convention.cache_inside_input else input
    if uncached < 0:
        raise Impossible(
            f"{cached} cached tokens exceed the {input} prompt tokens that should hold them.",
            "Choose the convention of the provider, or correct the counts.",
        )
    if convention.reasoning_inside_output and reasoning > output:
        raise Impossible(
            f"{reasoning} reasoning tokens exceed the {output} output tokens that should hold them.",
            "Choose a convention that reports reasoning apart (google, xai).",
        )
    usage = Usage(
        uncached=uncached,
        output=output if convention.reasoning_inside_output else output + reasoning,
        cache_read=cache_read,
        cache_write=cache_write,
        cache_write_1h=cache_write_1h,
        reasoning=reasoning,
    )
    if total is not None and total != usage.input + usage.output:
        raise Impossible(
            f"The total of {total} tokens is not input and output together ({usage.input} + {usage.output}): "
            "parts were counted twice or left out.",
            "Choose the convention of the provider.",
        )
    return usage
