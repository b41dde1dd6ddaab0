"""Options of ``python -m runners bench`` for the load and what its requests are made of."""

import argparse
from math import isfinite, nan
from typing import Any

from runners.sources import (
    Agents,
    Conversations,
    Prefixes,
    PromptFile,
    ShareGpt,
    Source,
    Synthetic,
    Tokens,
    Trace,
    TraceForm,
    parse_length,
)
from runners.spec import Arrivals, Goal, Images, Load, ModelShare, Search, SpecError, Workload

_KINDS = ("synthetic", "prompts", "sharegpt", "prefixes", "conversations", "agents", "trace")
_LENGTH = "128, uniform:low=64,high=256, normal:mean=512,sd=128,high=2048, lognormal:... or file:PATH"


def add_load(parser: argparse.ArgumentParser) -> None:
    group: Any = parser.add_argument_group("load")
    add = group.add_argument
    add("--concurrency", type=numbers, metavar="1,4,16", help="requests kept in flight, a stage each")
    add("--rate", type=numbers, metavar="2,4,8", help="requests sent per second, a stage each")
    add("--speed", type=numbers, metavar="1,2", help="replay a trace so many times as fast as recorded, a stage each")
    add(
        "--arrivals", choices=("constant", "poisson", "gamma"), default="poisson",
        help="with --rate: gaps between requests (default %(default)s)",
    )  # fmt: skip
    add("--cv", type=float, default=Load.cv, help="with gamma: standard deviation / mean of the gaps; 2 is bursty")
    add("--ramp-from", type=float, metavar="1", help="the load rises from here to its level over --duration")
    add("--requests", type=int, help="requests per stage without warm-up (default 10 x concurrency or 60)")
    add("--duration", type=float, metavar="S", help="seconds per stage, warm-up and cool-down not counted")
    add("--warmup", type=float, default=0.0, metavar="S", help="seconds of load before measuring; not drained")
    add("--cooldown", type=float, default=0.0, metavar="S", help="seconds of load after measuring")
    add(
        "--drain", type=float, default=Load.drain_s, metavar="S",
        help="seconds at most, after a stage, for the answers still under way (default %(default)s)",
    )  # fmt: skip
    add("--run-timeout", type=float, metavar="S", help="stop the run when its stages together took so many seconds")
    add(
        "--repeats", type=int, default=1, metavar="N", help="run all levels so often, in turn, for run-to-run intervals"
    )
    add(
        "--max-in-flight", type=int, default=Load.max_in_flight, metavar="N",
        help="never more requests at once than this (default %(default)s)",
    )  # fmt: skip
    add(
        "--calibrate", type=float, default=Load.calibrate_s, metavar="S",
        help="seconds per level to measure this machine's own error beforehand (default %(default)s; 0: none)",
    )  # fmt: skip
    add(
        "--processes", type=int, default=1, metavar="N",
        help="load processes on this host that share the load, for more than one core can send (default 1)",
    )  # fmt: skip
    add(
        "--find", choices=list(Goal),
        help="slo: the highest load that meets --slo; saturation: where throughput stops rising. --concurrency or "
        "--rate then says where to start and, if given, the most to try",
    )  # fmt: skip
    add("--slo-share", type=float, default=Search.share, help="requests that must meet --slo (default %(default)s)")
    add(
        "--tolerance", type=float, default=Search.tolerance,
        help="how near the load that passes and the one that fails must be (default %(default)s: 10 %%)",
    )  # fmt: skip
    add("--most-stages", type=int, default=Search.max_stages, help="stages of a search (default %(default)s)")


def add_workload(parser: argparse.ArgumentParser) -> None:
    group: Any = parser.add_argument_group("workload", "docs/workloads.md describes the kinds and the forms of files")
    add = group.add_argument
    add("--workload", choices=_KINDS, default="synthetic", help="what requests are made of (default %(default)s)")
    add(
        "--workload-file",
        default="",
        metavar="PATH",
        help="for prompts, sharegpt, trace, and conversations if you like",
    )
    add(
        "--input-tokens", type=_length, default=128, metavar="LENGTH",
        help=f"prompt length, template included (default %(default)s): {_LENGTH}",
    )  # fmt: skip
    add(
        "--output-tokens",
        type=_length,
        default=128,
        metavar="LENGTH",
        help="answer length asked for, in the same forms",
    )
    add("--input-sweep", type=_counts, metavar="128,1024", help="prompt lengths at one load, a stage each")
    add("--prefix-groups", type=int, default=Prefixes.groups, help="prefixes: how many (default %(default)s)")
    add(
        "--prefix-tokens", type=int, default=Prefixes.prefix_tokens, help="prefixes: their length (default %(default)s)"
    )
    add("--prefix-zipf", type=float, default=Prefixes.zipf, help="prefixes: 0 uses all alike (default %(default)s)")
    add("--turns", type=_length, default=Conversations.turns, metavar="LENGTH", help="conversations: turns of each")
    add(
        "--think",
        type=float,
        default=Conversations.think_s,
        metavar="S",
        help="conversations: from answer to next turn",
    )
    add("--think-cv", type=float, default=0.0, help="conversations: spread of think times; 1: exponential")
    add("--turn-every", type=float, default=0.0, metavar="S", help="conversations: no turn before this schedule")
    add("--system-tokens", type=int, help="conversations, agents: a system prompt that all share")
    add("--calls", type=_length, default=Agents.calls, metavar="LENGTH", help="agents: requests of a task")
    add(
        "--result-tokens",
        type=_length,
        default=Agents.result_tokens,
        metavar="LENGTH",
        help="agents: of a tool's result",
    )
    add("--tool-time", type=float, default=Agents.tool_s, metavar="S", help="agents: what a tool takes")
    add("--trace-form", choices=list(TraceForm), default=TraceForm.MOONCAKE.value, help="trace: form of the file")
    add(
        "--block-tokens", type=int, default=Trace.block_tokens,
        help="trace: tokens behind each hash of a Mooncake file (default %(default)s)",
    )  # fmt: skip
    _add_requests(add)


def _add_requests(add: Any) -> None:
    """What each request of a workload asks for."""
    add("--no-stream", action="store_true", help="ask for whole answers: latency only, no TTFT, no TPOT")
    add("--choices", type=int, default=1, metavar="N", help="answers per request (default %(default)s)")
    add(
        "--images", type=_images, default=Images(), metavar="COUNTxWIDTHxHEIGHT",
        help="pictures with each prompt, such as 1x512x512",
    )  # fmt: skip
    add(
        "--models", type=_models, default=(), metavar="NAME=WEIGHT,...",
        help="models or adapters, picked by weight: base=3,lora-a=1",
    )  # fmt: skip
    add("--seed", type=int, default=0, help="of prompts and arrivals")
    add(
        "--tokenizer",
        default="",
        help="tokenizer.json or GGUF of the model: exact lengths where the server cannot tell them",
    )
    add("--let-stop", action="store_true", help="do not ask the server to ignore its end-of-text token")


def numbers(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = (nan,)
    if not all(map(isfinite, found)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 1,4,16")
    return found


def _counts(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 128,1024") from None


def _length(text: str) -> Tokens:
    try:
        return parse_length(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _images(text: str) -> Images:
    try:
        return Images(*(int(part) for part in text.split("x", 2)))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write it as COUNTxWIDTHxHEIGHT, such as 1x512x512") from None


def _models(text: str) -> tuple[ModelShare, ...]:
    shares = []
    for part in text.split(","):
        name, _, weight = part.rpartition("=")
        try:
            shares.append(ModelShare(name, float(weight)) if name else ModelShare(weight))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r}: write it as name=weight, such as lora-a=1") from None
    return tuple(shares)


def workload_of(args: argparse.Namespace) -> Workload:
    return Workload(
        args.input_tokens,
        args.output_tokens,
        args.seed,
        ignore_eos=not args.let_stop,
        tokenizer=args.tokenizer,
        stream=not args.no_stream,
        choices=args.choices,
        images=args.images,
        models=args.models,
        source=_source_of(args),
        input_sweep=args.input_sweep or (),
    )


def _source_of(args: argparse.Namespace) -> Source:
    system, file = args.system_tokens, args.workload_file
    match args.workload:
        case "prompts":
            return PromptFile(file)
        case "sharegpt":
            return ShareGpt(file)
        case "prefixes":
            return Prefixes(args.prefix_groups, args.prefix_tokens, args.prefix_zipf)
        case "conversations":
            return Conversations(args.turns, args.think, args.think_cv, args.turn_every, system or 0, file)
        case "agents":
            shared = Agents.system_tokens if system is None else system
            return Agents(args.calls, args.result_tokens, args.tool_time, shared)
        case "trace":
            return Trace(file, TraceForm(args.trace_form), args.block_tokens)
    return Synthetic()


def load_of(args: argparse.Namespace) -> Load:
    """Raises SpecError for more than one kind of load."""
    given = [kind for kind in ("concurrency", "rate", "speed") if getattr(args, kind)]
    if len(given) > 1:
        raise SpecError(f"--{given[0]} and --{given[1]} are two kinds of load: give one of them")
    kind = given[0] if given else "concurrency"
    levels = getattr(args, kind) or (1.0,)
    arrivals = {"concurrency": Arrivals.CLOSED, "speed": Arrivals.REPLAY}.get(kind) or Arrivals(args.arrivals)
    requests = args.requests
    if requests is None and args.duration is None and kind != "speed":
        requests = round(10 * max(levels)) if kind == "concurrency" and not args.find else 60
    return Load(
        arrivals,
        levels,
        requests,
        args.duration,
        args.warmup,
        args.cooldown,
        cv=args.cv,
        ramp_from=args.ramp_from,
        repeats=args.repeats,
        search=Search(Goal(args.find), args.slo_share, args.tolerance, args.most_stages) if args.find else None,
        max_in_flight=args.max_in_flight,
        drain_s=args.drain,
        calibrate_s=args.calibrate,
        run_s=args.run_timeout,
    )
