"""Arguments of ``python -m runners quality``."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import orjson

from runners.bench_cli import add_files, add_timeouts, enter_files, json_of, timeouts_of
from runners.exits import Exit
from runners.lifeline import die_with
from runners.money_options import accounted, add_money, terms_of
from runners.prices import guard
from runners.prices.guard import Asked
from runners.progress import BarProgress, JsonProgress
from runners.quality.evaluation import Evaluation
from runners.quality.report import table
from runners.quality.spec import QualitySpec
from runners.quality.tasks import BUILT_IN, read
from runners.results import write_failure
from runners.spec import Dialect, SpecError, Target
from runners.target_options import add_target, add_wire, target_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spec", type=Path, help="a specification file (JSON); then only --out, --files and --progress count"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the results; made if missing")
    add_files(parser)
    parser.add_argument("--progress", choices=("bar", "json"), default="bar", help="for people or for programs")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)  # end when this process ends
    add_target(parser.add_argument_group("endpoint"))
    group = parser.add_argument_group("questions")
    group.add_argument(
        "--tasks",
        default=BUILT_IN,
        metavar="FILE.jsonl",
        help="a task set, or the one that comes along (default basic)",
    )
    group.add_argument("--concurrency", type=int, default=QualitySpec.concurrency, help="questions at a time")
    group.add_argument("--output-tokens", type=int, default=QualitySpec.output_tokens, help="longest answer")
    group.add_argument("--seed", type=int, default=QualitySpec.seed, help="sent where the endpoint takes one")
    _add_reference(parser.add_argument_group("reference"))
    add_wire(parser.add_argument_group("how requests go out"))
    limits = parser.add_argument_group("limits and money")
    add_timeouts(limits)
    add_money(limits)


def _add_reference(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--reference", metavar="URL[,MODEL]", help="put the same questions to this endpoint and compare")
    group.add_argument("--reference-dialect", choices=list(Dialect), help="its wire form (default: that of --dialect)")
    group.add_argument("--reference-api-key-env", default="", metavar="NAME", help="variable that holds its API key")


def spec_of(args: argparse.Namespace) -> QualitySpec:
    """Raises SpecError."""
    if args.spec:
        return QualitySpec.from_json(json_of(args.spec))
    if not args.url:
        raise SpecError("--url: say which endpoint to ask, such as --url http://localhost:8000")
    target = target_of(args)
    asked = QualitySpec(
        target=target,
        tasks=read(args.tasks),
        reference=_reference_of(args, target),
        concurrency=args.concurrency,
        output_tokens=args.output_tokens,
        seed=args.seed,
        timeouts=timeouts_of(args),
    )
    return replace(asked, budget=guard.budget(terms_of(args), endpoints(asked), asked.extent))


def endpoints(spec: QualitySpec) -> list[Asked]:
    """Who is asked, and for which models."""
    return [Asked(target.url, tuple(filter(None, [target.model]))) for target in spec.targets]


def _reference_of(args: argparse.Namespace, target: Target) -> Target | None:
    """Asked as the endpoint is asked, but for what is its own."""
    if not args.reference:
        return None
    url, _, model = args.reference.partition(",")
    dialect = Dialect(args.reference_dialect) if args.reference_dialect else target.dialect
    key = args.reference_api_key_env
    return replace(target, url=url, model=model or target.model, dialect=dialect, api_key_env=key)


def _refuse_used(out: Path) -> None:
    """Raises SpecError: what was answered before is never written over."""
    if (out / "quality.json").exists():
        raise SpecError(f"--out: {out} holds the results of an earlier evaluation; choose another folder")


def run(args: argparse.Namespace) -> int:
    """0 valid, 2 usage, 3 endpoint not usable, 4 too many failed, 130 interrupted with partial results kept."""
    if args.parent:
        die_with(args.parent)
    progress = JsonProgress() if args.progress == "json" else BarProgress()
    try:
        spec = spec_of(args)
        _refuse_used(args.out)
        args.out.mkdir(parents=True, exist_ok=True)
        enter_files(args)
        guard.refuse_unguarded(spec.budget, endpoints(spec))
        (args.out / "spec.json").write_bytes(orjson.dumps(spec.to_json(), option=orjson.OPT_INDENT_2))
        evaluation = Evaluation(spec, args.out, progress)
        with accounted(spec.budget, spec.extent, endpoints(spec)) as account:
            status = evaluation.run()
            account.settle(status, args.out)
    except (SpecError, ValueError) as error:
        progress.end(Exit.USAGE, False, "usage", str(error))
        return Exit.USAGE
    except OSError as error:
        progress.end(Exit.INVALID, False, *write_failure(error, args.out))
        return Exit.INVALID
    if evaluation.summary is not None and args.progress == "bar":
        print(table(evaluation.summary) + account.words)
        valid = evaluation.summary["valid"] and status != Exit.INTERRUPTED
        print(f"\n{'valid' if valid else 'NOT VALID'}; files in {args.out}", file=sys.stderr)
    return status
