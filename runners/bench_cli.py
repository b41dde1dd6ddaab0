"""Arguments of ``python -m runners bench``: from options or a specification file to a run."""

import argparse
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from runners.bench import Bench, salted
from runners.bench_options import add_load, add_workload, load_of, numbers, workload_of
from runners.crew import Crew
from runners.exits import Exit
from runners.lifeline import die_with
from runners.load.report import table
from runners.money_options import accounted, add_money, terms_of
from runners.power.options import add_power, power_of
from runners.powers import Pool
from runners.prices import guard
from runners.prices.guard import Asked
from runners.progress import BarProgress, JsonProgress
from runners.results import write_failure
from runners.spec import (
    Account,
    Power,
    RunSpec,
    ServerMetrics,
    Shard,
    Slo,
    SpecError,
    Timeouts,
    extent,
)
from runners.target_options import add_target, add_wire, target_of
from runners.workload_files import sealed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spec", type=Path, help="a specification file (JSON); then only --out, --files and --progress count"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the results; made if missing")
    add_files(parser)
    parser.add_argument("--progress", choices=("bar", "json"), default="bar", help="for people or for programs")
    parser.add_argument("--verbose", action="store_true", help="print the notes on power in full below the results")
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)  # end when this process ends
    target = parser.add_argument_group("endpoint")
    add_target(target)
    target.add_argument(
        "--metrics-url", default="", metavar="URL", help="the server's metrics page (default: /metrics)"
    )
    target.add_argument("--no-metrics", action="store_true", help="do not read the server's metrics page")
    add_wire(parser.add_argument_group("how requests go out"))
    add_load(parser)
    add_workload(parser)
    _add_accounts(parser.add_argument_group("limits, power and money"))


def add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--files", type=Path, metavar="DIR", help="folder that file names are relative to (default: the current one)"
    )


def _add_accounts(group: Any) -> None:
    group.add_argument("--slo", type=_slo, default=Slo(), metavar="ttft_ms=500,tpot_ms=50", help="bounds for goodput")
    add_power(group, "--power")
    group.add_argument(
        "--server-here", action="store_true", help="the server is on this machine although its address does not say so"
    )
    group.add_argument(
        "--gpu-shared", action="store_true", help="others are served on its GPUs too: their part is in the energy"
    )
    group.add_argument(
        "--pool", type=_pool, action="append", default=[], metavar="NAME=GPU,GPU",
        help="GPUs of one part of the server, such as prefill=0,1; repeatable. One without GPUs has the rest",
    )  # fmt: skip
    group.add_argument(
        "--idle", type=float, default=Power.idle_s, metavar="S",
        help="seconds of idle power read before the load, and after it (default %(default)s)",
    )  # fmt: skip
    group.add_argument("--observer", action="store_true", help="measure what reading the instruments costs itself")
    group.add_argument("--start-below", type=float, metavar="C", help="first wait until the hottest GPU is below this")
    group.add_argument(
        "--start-steady", type=float, metavar="C", help="first wait until it cools by less than this a minute"
    )
    group.add_argument(
        "--start-wait", type=float, default=Power.start_wait_s, metavar="S",
        help="wait for that so many seconds at most, then begin all the same (default %(default)s)",
    )  # fmt: skip
    group.add_argument("--usd-per-hour", type=float, help="price of the deployment: gives cost per million tokens")
    add_money(group)
    group.add_argument("--pue", type=float, help="facility overhead factor: gives energy with overhead")
    group.add_argument(
        "--pue-between", type=_range, default=(None, None), metavar="LOW,HIGH", help="where it is a range"
    )
    group.add_argument(
        "--traffic", type=float, metavar="N", help="queries an hour: gives energy with the idle time between them"
    )
    add_timeouts(group)


def add_timeouts(group: Any) -> None:
    for name, seconds, words in (
        ("connect", Timeouts.connect_s, "for a connection"),
        ("first-byte", Timeouts.first_byte_s, "from sending to the first byte"),
        ("idle", Timeouts.idle_s, "of silence within an answer"),
        ("total", Timeouts.total_s, "for the whole of a request"),
    ):
        group.add_argument(
            f"--{name}-timeout", type=float, default=seconds, metavar="S", help=f"seconds at most {words}"
        )


def _pool(text: str) -> Pool:
    name, _, gpus = text.partition("=")
    return Pool(name.strip(), tuple(gpu for part in gpus.split(",") if (gpu := part.strip())))


def _range(text: str) -> tuple[float, float]:
    ends = numbers(text)
    if len(ends) != 2:
        raise argparse.ArgumentTypeError(f"{text!r}: write the lowest and the highest, such as 1.07,1.16")
    return ends[0], ends[1]


def _slo(text: str) -> Slo:
    values: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in ("ttft_ms", "tpot_ms", "e2e_ms"):
            raise argparse.ArgumentTypeError(f"{name!r} is not one of ttft_ms, tpot_ms, e2e_ms")
        try:
            values[name] = float(value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r}: write it as {name}=500") from None
    return Slo(**values)


def json_of(spec: Path) -> Any:
    """What a specification file holds. Raises SpecError."""
    try:
        return orjson.loads(spec.read_bytes())
    except OSError as error:
        raise SpecError(f"--spec: {spec} cannot be read ({error.strerror})") from None
    except orjson.JSONDecodeError as error:
        raise SpecError(f"--spec: {spec} is not JSON ({error})") from None


def spec_of(args: argparse.Namespace) -> RunSpec:
    """Raises SpecError."""
    if args.spec:
        return RunSpec.from_json(json_of(args.spec))
    if not args.url:
        raise SpecError("--url: say which endpoint to measure, such as --url http://localhost:8000")
    given = "given on the command line"
    asked = RunSpec(
        target=target_of(args),
        workload=workload_of(args),
        load=load_of(args),
        slo=args.slo,
        timeouts=timeouts_of(args),
        power=replace(
            power_of(args, args.idle),
            observer=args.observer,
            start_below_c=args.start_below,
            start_steady_c_per_min=args.start_steady,
            start_wait_s=args.start_wait,
            server_here=args.server_here,
            shared=args.gpu_shared,
            pools=tuple(args.pool),
        ),
        account=Account(
            args.usd_per_hour,
            given if args.usd_per_hour else "",
            args.pue,
            given if args.pue else "",
            args.traffic,
            *args.pue_between,
        ),
        server=ServerMetrics(not args.no_metrics, args.metrics_url),
        shard=Shard(args.processes),
    )
    return replace(asked, budget=guard.budget(terms_of(args), endpoints(asked), partial(extent, asked)))


def endpoints(spec: RunSpec) -> list[Asked]:
    """Who is asked, and for which models."""
    models = [share.name for share in spec.workload.models] or [spec.target.model]
    return [Asked(spec.target.url, tuple(filter(None, models)))]


def timeouts_of(args: argparse.Namespace) -> Timeouts:
    return Timeouts(args.connect_timeout, args.first_byte_timeout, args.idle_timeout, args.total_timeout)


def _refuse_used(out: Path) -> None:
    """Raises SpecError: what was measured before is never written over."""
    if (out / "summary.json").exists():
        raise SpecError(f"--out: {out} holds the results of an earlier run; choose another folder")


def enter_files(args: argparse.Namespace) -> None:
    """File names mean those in the folder of --files from now on. Raises SpecError."""
    if not args.files:
        return
    args.out = args.out.absolute()
    try:
        os.chdir(args.files)
    except OSError as error:
        raise SpecError(f"--files: {args.files} cannot be entered ({error.strerror})") from None


def run(args: argparse.Namespace) -> int:
    if args.parent:
        die_with(args.parent)
    progress = JsonProgress() if args.progress == "json" else BarProgress()
    try:
        spec = spec_of(args)
        _refuse_used(args.out)
        args.out.mkdir(parents=True, exist_ok=True)
        enter_files(args)
        guard.refuse_unguarded(spec.budget, endpoints(spec))
        spec = sealed(salted(spec))
        split = spec.shard.count > 1 and spec.shard.index is None
        bench = Crew(spec, args.out, progress) if split else Bench(spec, args.out, progress)
        (args.out / "spec.json").write_bytes(orjson.dumps(bench.spec.to_json(), option=orjson.OPT_INDENT_2))
        with accounted(spec.budget, partial(extent, spec), endpoints(spec)) as account:
            status = bench.run()
            account.settle(status, args.out)
    except (SpecError, ValueError) as error:
        progress.end(Exit.USAGE, False, "usage", str(error))
        return Exit.USAGE
    except OSError as error:
        progress.end(Exit.INVALID, False, *write_failure(error, args.out))
        return Exit.INVALID
    if bench.summary is not None and args.progress == "bar":
        print(table(bench.summary, verbose=args.verbose) + account.words)
        print(f"\n{'valid' if bench.summary['valid'] else 'NOT VALID'}; files in {args.out}", file=sys.stderr)
    return status
