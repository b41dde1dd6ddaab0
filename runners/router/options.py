"""What a router may be told: the fields of its settings as options, on the command line and in recipes alike."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from runners.engines.options import Kind, Option
from runners.router.settings import Policy, Settings

POLICY = (
    Option("policy", Kind.CHOICE, "how an upstream is chosen", tuple(Policy)),
    Option("prefix_bytes", Kind.INTEGER, "prefix-affinity: the beginning of a prompt that decides", least=1),
    Option(
        "overload", Kind.INTEGER, "prefix-affinity: go elsewhere where so many more requests are in flight", least=1
    ),
    Option("max_words", Kind.INTEGER, "rules: a longer prompt goes to the large model", least=0),
    Option("hard_words", Kind.TEXTS, "rules: a prompt with one of these words goes to the large model"),
    Option("hard_probability", Kind.NUMBER, "classifier: from there on the large model is asked", least=0, most=1),
    Option("min_logprob", Kind.NUMBER, "confidence: below this mean log probability the large model is asked", most=0),
)
UPSTREAMS = "upstreams"
OPTIONS = (*POLICY, Option(UPSTREAMS, Kind.RECIPES, "the engines behind it; of two models the small one first"))


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Of checked options; what is left out has its default."""
    names = {item.name for item in fields(Settings)} & set(given)
    found: dict[str, Any] = {name: given[name] for name in names}
    if "policy" in found:
        found["policy"] = Policy(found["policy"])
    if "hard_words" in found:
        found["hard_words"] = tuple(found["hard_words"])
    return Settings(**found)
