"""A specification as the command line that asks the same of the same instrument."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from runners.power.options import arguments_of
from runners.sources import Agents, Conversations, Prefixes, PromptFile, ShareGpt, Source, Trace, length_option
from runners.spec import Account, Arrivals, Images, Load, Power, RunSpec, Search, Target, Timeouts, Workload

Options = list[tuple[str, object]]

_FROM_FILE = """# Not all of it can be said in options: save "spec" of this run's JSON as spec.json.
python -m runners bench \\
  --spec spec.json \\
  --out results"""


def bench_command(spec: Mapping[str, Any]) -> str:
    """``python -m runners bench ...``, one option a line. Raises SpecError.

    The salt is left out on purpose: with the same prompts again, a prefix cache would flatter.
    """
    asked = RunSpec.from_json(dict(spec))
    if not _sayable(asked):
        return _FROM_FILE
    target = asked.target
    options: Options = [
        ("--url", target.url),
        ("--model", target.model or None),
        ("--dialect", target.dialect.value),
        ("--api-key-env", target.api_key_env or None),
        ("--metrics-url", asked.server.url or None),
        ("--no-metrics", None if asked.server.scrape else ""),
        *_wire(target),
        *_load(asked.load),
        ("--processes", asked.shard.count if asked.shard.count > 1 else None),
        *_workload(asked.workload),
        ("--slo", ",".join(f"{key}={bound!r}" for key, bound in asked.slo.bounds().items()) or None),
        *_accounts(asked.power, asked.account, asked.timeouts),
        ("--out", "results"),
    ]
    lines = [
        f"{name} {shlex.quote(_text(value))}" if value != "" else name for name, value in options if value is not None
    ]
    return " \\\n  ".join(["python -m runners bench", *lines])


def _sayable(spec: RunSpec) -> bool:
    """Whether everything that is not at its default has an option."""
    names = [share.name for share in spec.workload.models]
    if any("," in name for name in names) or any("=" in name for name in spec.target.extra_body):
        return False
    return spec.workload.temperature == Workload().temperature


def _wire(target: Target) -> Options:
    """How requests go out, where that is not as usual."""
    return [
        ("--api-key-header", target.api_key_header or None),
        *(("--body", f"{name}={json.dumps(value)}") for name, value in target.extra_body.items()),
        *(("--header", f"{name}={value}") for name, value in target.extra_headers.items()),
        ("--ca-file", target.ca_file or None),
        ("--client-cert", target.client_cert_file or None),
        ("--client-key", target.client_key_file or None),
        ("--proxy", target.proxy or None),
    ]


def _load(load: Load) -> Options:
    levels = ",".join(_text(level) for level in load.levels)
    kinds: dict[Arrivals, Options] = {
        Arrivals.CLOSED: [("--concurrency", levels)],
        Arrivals.REPLAY: [("--speed", levels)],
    }
    kind = kinds.get(load.arrivals, [("--rate", levels), ("--arrivals", load.arrivals.value)])
    usual, search = Load(), load.search
    return [
        *kind,
        ("--cv", load.cv if load.arrivals is Arrivals.GAMMA else None),
        ("--find", search and search.goal.value),
        ("--slo-share", search.share if search and search.share != Search.share else None),
        ("--tolerance", search.tolerance if search and search.tolerance != Search.tolerance else None),
        ("--most-stages", search.max_stages if search and search.max_stages != Search.max_stages else None),
        ("--ramp-from", load.ramp_from),
        ("--requests", load.requests),
        ("--duration", load.duration_s),
        ("--warmup", load.warmup_s or None),
        ("--cooldown", load.cooldown_s or None),
        ("--drain", load.drain_s if load.drain_s != usual.drain_s else None),
        ("--run-timeout", load.run_s),
        ("--repeats", load.repeats if load.repeats != usual.repeats else None),
        ("--max-in-flight", load.max_in_flight if load.max_in_flight != usual.max_in_flight else None),
        ("--calibrate", load.calibrate_s if load.calibrate_s != usual.calibrate_s else None),
    ]


def _workload(workload: Workload) -> Options:
    images, shares = workload.images, workload.models
    return [
        *_source(workload.source),
        ("--input-tokens", length_option(workload.input_tokens)),
        ("--output-tokens", length_option(workload.output_tokens)),
        ("--input-sweep", ",".join(str(tokens) for tokens in workload.input_sweep) or None),
        ("--seed", workload.seed),
        ("--tokenizer", workload.tokenizer or None),
        ("--let-stop", None if workload.ignore_eos else ""),
        ("--no-stream", None if workload.stream else ""),
        ("--choices", workload.choices if workload.choices != Workload().choices else None),
        ("--images", f"{images.count}x{images.width_px}x{images.height_px}" if images != Images() else None),
        ("--models", ",".join(f"{share.name}={_text(share.weight)}" for share in shares) or None),
    ]


def _source(source: Source) -> Options:
    given: Options = []
    match source:
        case PromptFile() | ShareGpt():
            given = [("--workload-file", source.file)]
        case Prefixes():
            given = [
                ("--prefix-groups", source.groups),
                ("--prefix-tokens", source.prefix_tokens),
                ("--prefix-zipf", source.zipf),
            ]
        case Conversations():
            given = [
                ("--workload-file", source.file or None),
                ("--turns", length_option(source.turns)),
                ("--think", source.think_s),
                ("--think-cv", source.think_cv or None),
                ("--turn-every", source.every_s or None),
                ("--system-tokens", source.system_tokens or None),
            ]
        case Agents():
            given = [
                ("--calls", length_option(source.calls)),
                ("--result-tokens", length_option(source.result_tokens)),
                ("--tool-time", source.tool_s),
                ("--system-tokens", source.system_tokens),
            ]
        case Trace():
            given = [
                ("--workload-file", source.file),
                ("--trace-form", source.form.value),
                ("--block-tokens", source.block_tokens if source.block_tokens != Trace.block_tokens else None),
            ]
    return [("--workload", source.kind), *given] if source.kind != "synthetic" else []


def _accounts(power: Power, account: Account, timeouts: Timeouts) -> Options:
    usual = Timeouts()
    limits: Options = [
        (f"--{name.removesuffix('_s').replace('_', '-')}-timeout", getattr(timeouts, name))
        for name in ("connect_s", "first_byte_s", "idle_s", "total_s")
        if getattr(timeouts, name) != getattr(usual, name)
    ]
    return [
        *arguments_of(power, "--power"),
        ("--idle", None if power.idle_s == Power().idle_s else power.idle_s),
        ("--observer", "" if power.observer else None),
        ("--start-below", power.start_below_c),
        ("--start-steady", power.start_steady_c_per_min),
        ("--start-wait", None if power.start_wait_s == Power().start_wait_s else power.start_wait_s),
        ("--server-here", "" if power.server_here else None),
        ("--gpu-shared", "" if power.shared else None),
        *(("--pool", f"{pool.name}={','.join(pool.gpus)}" if pool.gpus else pool.name) for pool in power.pools),
        ("--usd-per-hour", account.usd_per_hour),
        ("--pue", account.pue),
        ("--pue-between", account.pue_bounds and ",".join(map(str, account.pue_bounds))),
        ("--traffic", account.queries_per_hour),
        *limits,
    ]


def _text(value: object) -> str:
    """Exact, without a needless ".0"."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
