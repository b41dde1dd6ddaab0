"""What an average request of a workload is like, as far as that is known before a run."""

from collections.abc import Mapping
from dataclasses import dataclass

from runners.load.workloads.lengths import mean_tokens
from runners.sources import Agents, Conversations, Length, PromptFile, Shape, ShareGpt, Tokens, Trace
from runners.spec import Workload

#: What is in each workload file, by its name: see ``runners.workload_files.look``.
Facts = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Work:
    """Tokens are None where they are not known beforehand, and ``notes`` say why. ``wait_s`` goes by between an answer
    and the next request of the same user; ``turns`` are those of a conversation; ``entries`` and ``span_s`` are of a
    trace.
    """

    input_tokens: float | None
    output_tokens: float | None
    wait_s: float = 0.0
    turns: float = 1.0
    entries: float = 0.0
    span_s: float = 0.0
    notes: tuple[str, ...] = ()


def work_of(workload: Workload, facts: Facts) -> Work:
    """The workload's averages, its files being of these ``facts``."""
    source, output = workload.source, mean(workload.output_tokens, facts)
    match source:
        case PromptFile():
            return Work(None, output, notes=("The prompts' tokens are not counted beforehand.",))
        case ShareGpt():
            return Work(None, None, notes=("The tokens of the recorded chats are not counted beforehand.",))
        case Conversations():
            return Work(
                None, output, source.think_s, mean(source.turns, facts) or 1, notes=("Prompts grow with the history.",)
            )
        case Agents():
            return Work(
                None, output, source.tool_s, mean(source.calls, facts) or 1, notes=("Prompts grow from call to call.",)
            )
        case Trace():
            told = facts.get(source.file, {})
            return Work(
                told.get("mean_input_tokens"),
                told.get("mean_output_tokens"),
                entries=told.get("entries", 0),
                span_s=told.get("span_s", 0),
            )
    sweep = workload.input_sweep
    return Work(sum(sweep) / len(sweep) if sweep else mean(workload.input_tokens, facts), output)


def mean(tokens: Tokens, facts: Facts) -> float | None:
    """What is drawn on average; None where nothing is known of its file."""
    if isinstance(tokens, Length) and tokens.shape is Shape.FILE:
        return facts.get(tokens.file, {}).get("mean_tokens")
    return mean_tokens(tokens)
