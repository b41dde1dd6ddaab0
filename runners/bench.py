"""``python -m runners bench``: check the endpoint, read idle power, drive the stages, add up, write the files."""

import resource
import secrets
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import ceil
from pathlib import Path
from time import monotonic_ns
from types import FrameType
from typing import Any

import pyarrow as pa

from runners import __version__
from runners.address import AddressError, ResolveError
from runners.environment import environment
from runners.exits import Exit
from runners.gate import Gate, OpenGate, StandardInputGate
from runners.load.calibrate import Calibration, calibrate
from runners.load.check import Asker, Checked, Unusable, check
from runners.load.energy_use import add_medians
from runners.load.engine import Engine
from runners.load.records import SCHEMA, read_spool
from runners.load.shares import Share
from runners.load.stage import Recorder, Stage, Supply
from runners.load.summary import Client, reason, summarise, summarise_stage
from runners.load.target import Requests, api_key, base_endpoint, destination
from runners.load.transport import Destination
from runners.load.unsent import RequestSpool
from runners.load.workload import tokenizer_counter
from runners.power.energy import mean_power_w
from runners.power.sampler import Sampler
from runners.power.samples import SCHEMA as POWER_SCHEMA
from runners.probe import identify
from runners.progress import Progress
from runners.results import energies, ledgers, write_failure, write_results
from runners.server.samples import SCHEMA as SERVER_SCHEMA
from runners.server.scraper import Scraper
from runners.server.summary import ServerSide
from runners.spec import Power, RunSpec, ServerMetrics


class Interrupted(Exception):
    """SIGINT or SIGTERM before the first stage."""


class Bench:
    """One run. ``run`` returns the exit status; everything measured is in ``out``, whatever happens."""

    def __init__(self, spec: RunSpec, out: Path, progress: Progress) -> None:
        self.spec = salted(spec)
        self.out = out
        self.summary: dict[str, Any] | None = None
        self._progress = progress
        self._began_ns = monotonic_ns()
        self._anchor = {"monotonic_ns": self._began_ns, "utc": datetime.now(UTC).isoformat()}
        self._engine: Engine | None = None
        self._scraper: Scraper | None = None
        self._stages: list[tuple[Stage, Client]] = []
        self._calibrations: dict[int, Calibration] = {}
        self._gate: Gate = OpenGate() if spec.shard.index is None else StandardInputGate()
        self._stop = ""
        self._step = -1
        self._next_report_ns = 0
        self._idle_window: tuple[int, int] | None = None
        self._identity = ("", "")

    def run(self) -> Exit:
        """Raises SpecError for what cannot be asked; everything that an endpoint does becomes a status and words."""
        key = api_key(self.spec.target)
        count_tokens = tokenizer_counter(self.spec.workload.tokenizer) if self.spec.workload.tokenizer else None
        self._raise_file_limit()
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        sampler = Sampler.start(self.spec.power if self._first else Power("none"), self.out)
        try:
            status, code, text = self._measure(key, count_tokens, sampler)
        except Interrupted:
            status, code, text = Exit.INTERRUPTED, "interrupted", "stopped before the first request was measured"
        except Unusable as error:
            status, code, text = Exit.UNUSABLE, error.code, error.text
        finally:
            sampler.stop()
            if self._scraper:
                self._scraper.stop()
            for number, handler in previous.items():
                signal.signal(number, handler)
        self._progress.end(status, status == Exit.VALID, code, text)
        return status

    # phases

    def _measure(self, key: str, count_tokens: Any, sampler: Sampler) -> tuple[Exit, str, str]:
        where, requests = self._aim(key)
        self._report("check", 0.0, sampler)
        asked = self.spec.server if self._first else ServerMetrics(scrape=False)
        self._scraper = scraper = Scraper.start(asked, where, self.spec.target, requests.headers, self.out)
        waiting = partial(self._while_waiting, "check", sampler)
        checked = check(Asker(where, self.spec.timeouts, waiting), requests, self.spec.salt)
        _refuse_too_short(checked)
        self._identity = identify(where, checked.requests.headers, secret=key, on_tick=waiting)[:2]
        self._calibrations = self._calibrate(sampler)
        self._read_idle(sampler)
        recorder = Recorder(RequestSpool(self.out / "requests.arrow"), checked.requests, count_tokens)
        try:
            self._drive(where, checked, recorder, sampler, scraper)
        finally:
            recorder.close()
        self._report("summary", 1.0, sampler)
        sampler.stop()
        scraper.stop()
        return self._finish(where, checked, recorder, sampler, scraper)

    def _while_waiting(self, phase: str, sampler: Sampler, now_ns: int) -> None:
        if self._stop:
            raise Interrupted
        self._report(phase, 0.0, sampler)

    def _aim(self, key: str) -> tuple[Destination, Requests]:
        target = self.spec.target
        try:
            endpoint = base_endpoint(target.url, target.dialect)
            where = destination(endpoint, target)
        except ResolveError as error:
            raise Unusable(str(error.outcome), str(error)) from None
        except AddressError as error:
            raise Unusable("bad_url", str(error)) from None
        return where, Requests(endpoint, target, self.spec.workload, key)

    def _calibrate(self, sampler: Sampler) -> dict[int, Calibration]:
        """One a stage that this process has a share in, by its index; none when it was not asked for."""
        load = self.spec.load
        if load.calibrate_s <= 0:
            return {}
        shares = [Share.of(self.spec, level).level(load.arrivals, level) for level in load.levels]
        own = {index: level for index, level in enumerate(shares) if level > 0}
        on_tick = partial(self._while_waiting, "calibrate", sampler)
        found = calibrate(load.arrivals, list(own.values()), load.calibrate_s, on_tick)
        return dict(zip(own, found, strict=True))

    def _begin(self, sampler: Sampler) -> int | None:
        """When the next step begins, for all shards alike (CLOCK_MONOTONIC); None when the run was stopped."""

        def still(step: int) -> bool:
            if step != self._step:
                self._step, self._next_report_ns = step, 0  # that it is ready is said at once
            self._report("wait", 0.0, sampler, step=step)
            return not self._stop

        begin_ns = self._gate.wait(still)
        if begin_ns is None:
            self._stop = self._stop or "interrupted"
        return None if self._stop else begin_ns

    def _read_idle(self, sampler: Sampler) -> None:
        """Idle power with the server up and no traffic."""
        if not reads_idle(self.spec):
            return
        if self._begin(sampler) is None:
            raise Interrupted
        if not self._first:
            return
        start = monotonic_ns()
        while (monotonic_ns() - start) / 1e9 < self.spec.power.idle_s:
            if self._stop:
                raise Interrupted
            self._report("idle", 0.0, sampler)
            time.sleep(0.1)
        self._idle_window = (start, monotonic_ns())

    def _drive(
        self, where: Destination, checked: Checked, recorder: Recorder, sampler: Sampler, scraper: Scraper
    ) -> None:
        engine = self._engine = Engine(where, self.spec.timeouts, recorder.take)
        engine.resend = self.spec.budget.max_usd is None
        recorder.stop = engine.stop
        if self._stop:
            engine.stop(self._stop)
        try:
            for index in range(len(self.spec.load.levels)):
                stage = Stage(
                    self.spec, index, engine, recorder, Supply(checked.requests, self.spec, checked.fit, index)
                )
                on_tick = partial(self._tick, stage, recorder, sampler)
                stage.prepare(on_tick)
                begin_ns = self._begin(sampler)
                if begin_ns is None or engine.stop_reason:
                    break
                scraper.mark()
                stage.run(begin_ns, on_tick)
                self._stages.append((stage, stage.client(self._calibrations.get(index))))
            if not engine.stop_reason and self._begin(sampler) is not None:
                scraper.mark()
        finally:
            engine.close()
            self._engine = None

    def _tick(self, stage: Stage, recorder: Recorder, sampler: Sampler, now_ns: int) -> None:
        stage.top_up()
        if now_ns < self._next_report_ns:
            return
        recorder.flush()
        elapsed_s = (now_ns - stage.begin_ns) / 1e9
        fraction = stage.fraction(now_ns)
        recent = sorted(recorder.recent_ttft_ms)
        self._report(
            stage.phase(now_ns),
            (stage.index + fraction) / len(self.spec.load.levels),
            sampler,
            stage=stage.index,
            load={"kind": "concurrency" if stage.closed else "rate", "value": stage.level},
            planned=stage.planned,
            sent=recorder.finished + (self._engine.in_flight if self._engine else 0),
            ok=recorder.ok,
            failed=recorder.failed,
            in_flight=self._engine.in_flight if self._engine else 0,
            output_tokens_per_s=recorder.output_tokens / elapsed_s if elapsed_s > 0 else None,
            ttft_ms=recent[len(recent) // 2] if recent else None,
        )

    def _report(self, phase: str, fraction: float, sampler: Sampler, **more: Any) -> None:
        now = monotonic_ns()
        if now < self._next_report_ns and phase != "summary":
            return
        self._next_report_ns = now + 1_000_000_000
        elapsed_s = (now - self._began_ns) / 1e9
        state = {
            "t_s": elapsed_s,
            "phase": phase,
            "stage": 0,
            "stages": len(self.spec.load.levels),
            "load": None,
            "planned": None,
            "sent": 0,
            "ok": 0,
            "failed": 0,
            "in_flight": 0,
            "fraction": fraction,
            "eta_s": elapsed_s * (1 - fraction) / fraction if fraction > 0.02 else None,
            "output_tokens_per_s": None,
            "ttft_ms": None,
            "power_w": sampler.latest_power_w(),
        }
        self._progress.update(state | more)

    # results

    def _finish(
        self, where: Destination, checked: Checked, recorder: Recorder, sampler: Sampler, scraper: Scraper
    ) -> tuple[Exit, str, str]:
        rows = read_spool(self.out / "requests.arrow", SCHEMA)
        samples = read_spool(self.out / "power.arrow", POWER_SCHEMA)
        server = ServerSide(read_spool(self.out / "server.arrow", SERVER_SCHEMA), scraper.describe())
        summary = self._summarise(rows, samples, where, checked, sampler.describe(), server)
        self.summary = summary
        failed_write = recorder.write_error or self._write(rows, samples, server.samples, summary)
        if failed_write is not None:
            code, words = write_failure(failed_write, self.out, rows.num_rows)
            summary["valid"] = False
            summary["reasons"].append(reason(code, words))
            return Exit.INVALID, code, words
        if self._stop:
            return Exit.INTERRUPTED, "interrupted", f"stopped; {rows.num_rows} rows were kept in {self.out}"
        if not summary["valid"]:
            return Exit.INVALID, "invalid", "; ".join(item["text"] for item in summary["reasons"])
        return Exit.VALID, "", ""

    def _summarise(
        self,
        rows: pa.Table,
        samples: pa.Table,
        where: Destination,
        checked: Checked,
        power: dict[str, Any],
        server: ServerSide,
    ) -> dict[str, Any]:
        idle_w = mean_power_w(samples, *self._idle_window, description=power) if self._idle_window else None
        power = {**power, "idle_w": idle_w, "idle_mark": power["mark"] if idle_w is not None else None}
        ledger_of = ledgers(samples, power, self.spec.account)
        stages = [
            summarise_stage(rows, stage.index, self.spec, client=client, ledger_of=ledger_of, server_of=server.of_stage)
            for stage, client in self._stages
        ]
        attribution = add_medians(rows, stages, energies(samples, power), idle_w)
        engine, version = self._identity
        return summarise(
            rows,
            self.spec,
            stages,
            runner_version=__version__,
            clock=next((client.clock for _, client in self._stages), "user"),
            clock_anchor=self._anchor,
            started_at=self._anchor["utc"],
            ended_at=datetime.now(UTC).isoformat(),
            environment=environment(),
            target={
                "url": where.endpoint.url,
                "model": ", ".join(checked.requests.models),
                "dialect": self.spec.target.dialect.value,
                "engine": engine,
                "engine_version": version,
                "omitted_fields": sorted(checked.requests.omit),
            },
            attribution=attribution,
            power=power,
            server=server.account,
        )

    def _write(self, rows: pa.Table, samples: pa.Table, scraped: pa.Table, summary: dict[str, Any]) -> OSError | None:
        try:
            write_results(self.out, {"requests": rows, "power": samples, "server": scraped}, summary)
        except OSError as error:
            return error
        for name in ("requests.arrow", "power.arrow", "server.arrow"):
            (self.out / name).unlink(missing_ok=True)
        return None

    @property
    def _first(self) -> bool:
        """Whether this process reads power and the server's metrics: of several, the first does."""
        return self.spec.shard.index in (None, 0)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop = "interrupted"
        if self._engine is not None:
            self._engine.stop("interrupted")

    def _raise_file_limit(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def salted(spec: RunSpec) -> RunSpec:
    """With a salt of its own where it has none: no two runs share a prompt."""
    return spec if spec.salt else replace(spec, salt=secrets.token_hex(8))


def reads_idle(spec: RunSpec) -> bool:
    """Whether the run begins with a reading of idle power."""
    return spec.power.source != "none" and spec.power.idle_s > 0


def _refuse_too_short(checked: Checked) -> None:
    """Raises Unusable for prompts that cannot be as short as asked. Pictures count as tokens that nobody asked for."""
    workload, fit = checked.requests.workload, checked.fit
    if fit.checked and not workload.images.count and workload.input_tokens <= round(fit.overhead_tokens):
        raise Unusable(
            "prompt_too_short",
            f"prompts of {workload.input_tokens} tokens cannot be sent: the chat template alone has "
            f"{fit.overhead_tokens:.0f} tokens; ask for at least {ceil(fit.overhead_tokens + fit.tokens_per_word)}",
        )
