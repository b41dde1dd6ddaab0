"""The kinds of workload, one module each, registered here. docs/workloads.md describes them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runners.load.workloads import dialogues, prefixes, prompts, synthetic, trace
from runners.load.workloads.base import Context, Message, Said, Turn, Workload
from runners.sources import Source

__all__ = ["Context", "Material", "Message", "Said", "Turn", "Workload", "read"]


@dataclass(frozen=True)
class Kind:
    """``read`` loads its file and raises SpecError; ``begin`` makes the turns of a stage; ``words`` says what is sent;
    ``chained``: turns wait for each other."""

    begin: Callable[[Any, Any, Context], Workload]
    words: Callable[[Any, Any], str]
    read: Callable[[Any], Any] = lambda source: None
    chained: bool = False


_KINDS: dict[str, Kind] = {
    "synthetic": Kind(synthetic.SyntheticTurns, synthetic.words),
    "prompts": Kind(prompts.RecordedTurns, prompts.prompt_words, prompts.read_prompt_file),
    "sharegpt": Kind(prompts.ShareGptTurns, prompts.share_gpt_words, prompts.read_share_gpt),
    "prefixes": Kind(prefixes.PrefixTurns, prefixes.words),
    "conversations": Kind(
        dialogues.conversations, dialogues.conversation_words, dialogues.read_questions, chained=True
    ),
    "agents": Kind(dialogues.agents, dialogues.agent_words, chained=True),
    "trace": Kind(trace.TraceTurns, trace.words, trace.read_trace),
}


@dataclass(frozen=True)
class Material:
    """A source with its file read, ready for every stage."""

    source: Source
    content: Any

    @property
    def chained(self) -> bool:
        return _KINDS[self.source.kind].chained

    @property
    def words(self) -> str:
        """What is sent, in a sentence."""
        return _KINDS[self.source.kind].words(self.source, self.content)

    @property
    def recording(self) -> trace.Recording | None:
        """The times and lengths of a trace; None for other kinds."""
        return self.content if isinstance(self.content, trace.Recording) else None

    def begin(self, context: Context) -> Workload:
        return _KINDS[self.source.kind].begin(self.source, self.content, context)


def read(source: Source) -> Material:
    """Raises SpecError that says what is wrong with its file."""
    return Material(source, _KINDS[source.kind].read(source))
