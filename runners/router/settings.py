"""By which policy a router chooses, and how the policy is set."""

from dataclasses import dataclass
from enum import StrEnum


class Policy(StrEnum):
    """The first three spread requests over replicas, the next three choose between a small model and a large one; in
    the last one replica reads the prompt and the other answers.
    """

    ROUND_ROBIN = "round-robin"
    LEAST_OUTSTANDING = "least-outstanding"
    PREFIX_AFFINITY = "prefix-affinity"
    RULES = "rules"
    CLASSIFIER = "classifier"
    CONFIDENCE = "confidence"
    DISAGGREGATED = "disaggregated"

    @property
    def chooses_models(self) -> bool:
        return self in (Policy.RULES, Policy.CLASSIFIER, Policy.CONFIDENCE)


#: Where the two models stand among the upstreams of a policy that chooses between them.
SMALL, LARGE = 0, 1
#: And of the one that disaggregates.
PREFILL, DECODE = 0, 1
MOST_UPSTREAMS = 64


@dataclass(frozen=True)
class Settings:
    """``prefix_bytes``: so much of a prompt decides where prefix affinity sends it, unless that replica has
    ``overload`` more requests in flight than the least busy one. By the rules a prompt of more than ``max_words``, or
    with one of ``hard_words``, is hard; by the classifier one that is so with ``hard_probability``. By confidence the
    large model is asked where the mean log probability of the small one's answer is below ``min_logprob`` (nats).
    """

    policy: Policy = Policy.ROUND_ROBIN
    prefix_bytes: int = 512
    overload: int = 4
    max_words: int = 60
    hard_words: tuple[str, ...] = ("prove", "derive", "explain", "compare", "why", "debug")
    hard_probability: float = 0.5
    min_logprob: float = -0.5


def complaint(settings: Settings, upstreams: int) -> str | None:
    """What is wrong with so many upstreams, and the fix."""
    if settings.policy.chooses_models and upstreams != 2:
        return f"{settings.policy.value} chooses between two: give the small model first, then the large one"
    if settings.policy is Policy.DISAGGREGATED and upstreams != 2:
        return f"{settings.policy.value} takes two: give the one that reads prompts first, then the one that answers"
    return None if 1 <= upstreams <= MOST_UPSTREAMS else f"give at least one, and at most {MOST_UPSTREAMS}"
