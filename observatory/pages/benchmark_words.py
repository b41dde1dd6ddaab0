"""What a benchmark asks, in one line."""

from observatory.benchmarks.models import Benchmark
from observatory.pages.templatetags.numbers import duration
from runners.loads import Arrivals, Goal, Load
from runners.sources import Agents, Conversations, Prefixes, PromptFile, ShareGpt, Trace, length_option
from runners.spec import SpecError, Workload

_GOALS = {Goal.SLO: "the highest load that meets the SLO", Goal.SATURATION: "saturation"}


def asks(benchmark: Benchmark) -> str:
    """Such as "128 → 64 tok, concurrency 1, 4, 16, 60 s each"."""
    try:
        return f"{workload_words(benchmark.asked_workload)}, {load_words(benchmark.asked_load)}"
    except SpecError as error:
        return f"cannot be read: {error}"


def workload_words(workload: Workload) -> str:
    """Such as "agents of 5 calls, 128 → 64 tok"."""
    source = workload.source
    sweep = ", ".join(str(tokens) for tokens in workload.input_sweep)
    lengths = f"{sweep or length_option(workload.input_tokens)} → {length_option(workload.output_tokens)} tok"
    match source:
        case PromptFile():
            return f"prompts of {source.file} → {length_option(workload.output_tokens)} tok"
        case ShareGpt():
            return f"first questions of {source.file}"
        case Prefixes():
            return f"{lengths}, {source.groups} groups that share {source.prefix_tokens} tok"
        case Conversations():
            return f"conversations of {length_option(source.turns)} turns, {lengths}"
        case Agents():
            return f"agents of {length_option(source.calls)} calls, {lengths}"
        case Trace():
            return f"trace {source.file}"
    return lengths


def load_words(load: Load) -> str:
    """Such as "concurrency 1, 4, 16, 60 s each"."""
    levels = ", ".join(f"{level:g}" for level in load.levels)
    match load.arrivals:
        case Arrivals.CLOSED:
            kind = f"concurrency {levels}"
        case Arrivals.REPLAY:
            kind = f"{levels} × recorded speed"
        case _:
            kind = f"{levels} req/s {load.arrivals}"
    if load.search:
        kind = f"search for {_GOALS[load.search.goal]} from {kind}"
    ends = [f"{load.requests} requests"] if load.requests else []
    ends += [duration(load.duration_s)] if load.duration_s else []
    repeats = f", {load.repeats} times" if load.repeats > 1 else ""
    return f"{kind}, {' or '.join(ends)} each{repeats}" if ends else f"{kind}{repeats}"
