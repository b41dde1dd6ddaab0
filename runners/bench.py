"""``python -m runners bench``: check the endpoint, read idle power, drive the stages, add up, write the files."""

import resource
import secrets
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic_ns
from types import FrameType
from typing import Any

import pyarrow as pa

from runners import __version__
from runners.address import AddressError, ResolveError
from runners.energies import add_energy
from runners.environment import environment
from runners.exits import Exit
from runners.gate import Gate, OpenGate, StandardInputGate
from runners.load.calibrate import Calibration, calibrate
from runners.load.check import Asker, Checked, Needs, Unusable, check, refuse_too_short
from runners.load.engine import Engine
from runners.load.judgement import Client, reason
from runners.load.plan import StagePlan, fixed_stages
from runners.load.records import read_spool
from runners.load.rowfiles import Rows, SpoolRows
from runners.load.search import course_of
from runners.load.stage import Recorder, Stage, Work
from runners.load.summary import summarise, summarise_stage
from runners.load.target import Requests, api_key, base_endpoint, destination
from runners.load.tokens import tokenizer_counter
from runners.load.transport import Destination
from runners.load.unsent import RequestSpool
from runners.load.workloads import Context, read
from runners.power.idle import Idle
from runners.power.placement import own, placed, sampled_here
from runners.power.sampler import Sampler
from runners.power.samples import SCHEMA as POWER_SCHEMA
from runners.probe import identify
from runners.progress import Progress, Reports
from runners.results import write_failure, write_results
from runners.server.samples import SCHEMA as SERVER_SCHEMA
from runners.server.scraper import Scraper
from runners.server.summary import ServerSide
from runners.sources import Agents, Conversations
from runners.spec import Arrivals, Power, RunSpec, ServerMetrics


class Interrupted(Exception):
    """SIGINT or SIGTERM before the first stage."""


class Bench:
    """One run. ``run`` returns the exit status; everything measured is in ``out``, whatever happens."""

    def __init__(self, spec: RunSpec, out: Path, progress: Progress) -> None:
        """Raises SpecError for files that cannot be used."""
        self.spec = salted(spec)
        self._material = read(spec.workload.source)
        self._course = course_of(spec)
        self.out = out
        self.summary: dict[str, Any] | None = None
        self._progress = progress
        self._reports = Reports(progress, self._course.total)
        self._anchor = {"monotonic_ns": monotonic_ns(), "utc": datetime.now(UTC).isoformat()}
        self._engine: Engine | None = None
        self._scraper: Scraper | None = None
        self._stages: list[tuple[StagePlan, Client]] = []
        self._calibrations: dict[float, Calibration] = {}
        self._gate: Gate = OpenGate() if spec.shard.index is None else StandardInputGate()
        self._stop = ""
        self._deadline_ns = 0
        self._idle = Idle(self.spec.power, lambda phase: self._while_waiting(phase, monotonic_ns()))
        self._identity = ("", "")
        self._here = True

    def run(self) -> Exit:
        """Raises SpecError for what cannot be asked; everything that an endpoint does becomes a status and words."""
        key = api_key(self.spec.target)
        count_tokens = tokenizer_counter(self.spec.workload.tokenizer) if self.spec.workload.tokenizer else None
        self._raise_file_limit()
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        sampler = Sampler.start(sampled_here(self.spec.power) if self._first else Power("none"), self.out)
        self._reports.power_w = sampler.latest_power_w
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
        self._here = self.spec.power.server_here or (where.proxy is None and own(where.addresses))
        if not self._here or self.spec.power.hosts:
            self._reports.power_w = lambda: None
        self._reports.say("check")
        asked = self.spec.server if self._first else ServerMetrics(scrape=False)
        self._scraper = scraper = Scraper.start(asked, where, self.spec.target, requests.headers, self.out)
        waiting = partial(self._while_waiting, "check")
        checked = check(
            Asker(where, self.spec.timeouts, waiting), requests, self.spec.salt, self._needs(), count_tokens
        )
        refuse_too_short(checked)
        self._identity = identify(where, checked.requests.headers, secret=key, on_tick=waiting)[:2]
        scraper.look()
        if self.spec.load.search is None:
            self._calibrate(fixed_stages(self.spec))
        self._read_idle(sampler)
        recorder = Recorder(RequestSpool(self.out / "requests.arrow"), checked.requests, count_tokens)
        try:
            complete = self._drive(where, checked, recorder, scraper)
        finally:
            recorder.close()
        if complete:
            self._read_idle_after()
        self._reports.say("summary", 1.0, at_once=True)
        sampler.stop()
        scraper.stop()
        return self._finish(where, checked, recorder, sampler, scraper)

    def _while_waiting(self, phase: str, now_ns: int) -> None:
        if self._stop:
            raise Interrupted
        self._reports.say(phase)

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

    def _needs(self) -> Needs:
        source = self.spec.workload.source
        system = isinstance(source, Conversations | Agents) and source.system_tokens > 0
        return Needs(turns=self._material.chained, system=system)

    def _calibrate(self, plans: Sequence[StagePlan]) -> None:
        """Once a level that this process has a share in; not at all when it was not asked for."""
        load, recording = self.spec.load, self._material.recording
        own = {plan.level: plan.share.level(load.arrivals is Arrivals.CLOSED, plan.level) for plan in plans}
        own = {level: part for level, part in own.items() if part > 0 and level not in self._calibrations}
        if load.calibrate_s <= 0 or not own:
            return
        arrivals, loads = load.arrivals, list(own.values())
        if arrivals is Arrivals.REPLAY and recording is not None:
            arrivals, loads = Arrivals.CONSTANT, [speed * recording.per_s for speed in loads]
        on_tick = partial(self._while_waiting, "calibrate")
        found = calibrate(arrivals, loads, load.calibrate_s, on_tick)
        self._calibrations |= dict(zip(own, found, strict=True))

    def _begin(self) -> int | None:
        """When the next step begins, for all shards alike (CLOCK_MONOTONIC); None when the run was stopped."""

        def still(step: int) -> bool:
            self._reports.say_ready(step)
            return not self._stop and not self._late(monotonic_ns())

        begin_ns = self._gate.wait(still)
        if begin_ns is None and not self._late(monotonic_ns()):
            self._stop = self._stop or "interrupted"
        return None if self._stop else begin_ns

    def _late(self, now_ns: int) -> bool:
        """Stops the run when its stages have taken as long as they may."""
        late = 0 < self._deadline_ns <= now_ns
        if late and self._engine is not None:
            self._engine.stop("run_timeout")
        return late

    def _read_idle(self, sampler: Sampler) -> None:
        """Idle power with the server up and no traffic."""
        if not reads_idle(self.spec):
            return
        if self._begin() is None:
            raise Interrupted
        if self._first:
            self._idle.before(sampler)

    def _read_idle_after(self) -> None:
        """Once nobody asks anything any more; a run that is stopped meanwhile is kept without."""
        if self._first and reads_idle(self.spec):
            with suppress(Interrupted):
                self._idle.after()

    def _drive(self, where: Destination, checked: Checked, recorder: Recorder, scraper: Scraper) -> bool:
        """False when the run was stopped before its end."""
        engine = self._engine = Engine(where, self.spec.timeouts, recorder.take)
        engine.resend = self.spec.budget.max_usd is None
        recorder.stop = engine.stop
        if self._stop:
            engine.stop(self._stop)
        try:
            while not engine.stop_reason and (plan := self._course.next()) is not None:
                stage = Stage(self.spec, plan, engine, recorder, checked.requests, self._work(plan, checked))
                if self._run_stage(stage, recorder, scraper):
                    self._keep(stage, scraper)
            complete = not engine.stop_reason and self._begin() is not None
            if complete:
                scraper.mark()
            return complete
        finally:
            engine.close()
            self._engine = None

    def _work(self, plan: StagePlan, checked: Checked) -> Work:
        context = Context(
            seed=f"{self.spec.workload.seed}/stage{plan.index}",
            salt=f"{self.spec.salt}/stage{plan.index}",
            fit=checked.fit,
            count_tokens=checked.count_tokens,
            input_tokens=plan.input_tokens,
            output_tokens=self.spec.workload.output_tokens,
            stage=plan.index,
            stages=self._course.total,
            warms_up=self.spec.load.warmup_s > 0,
        )
        return Work(self._material.begin(context), self._material.chained, self._material.recording)

    def _run_stage(self, stage: Stage, recorder: Recorder, scraper: Scraper) -> bool:
        """False when the run was stopped before the stage began."""
        engine = stage.engine
        on_tick = partial(self._tick, stage, recorder)
        try:
            self._calibrate([stage.plan])  # a search calibrates as it goes on
        except Interrupted:
            engine.stop("interrupted")
            return False
        stage.prepare(on_tick)
        begin_ns = self._begin()
        if begin_ns is None or engine.stop_reason:
            engine.stop(engine.stop_reason or self._stop)
            return False
        if self.spec.load.run_s and not self._deadline_ns:
            self._deadline_ns = (begin_ns or monotonic_ns()) + round(self.spec.load.run_s * 1e9)
        scraper.mark()
        stage.run(begin_ns, on_tick)
        return True

    def _keep(self, stage: Stage, scraper: Scraper) -> None:
        """A search goes on from what the stage found, and from what the server said of itself meanwhile."""
        client = stage.client(self._calibrations.get(stage.plan.level))
        self._stages.append((stage.plan, client))
        if self.spec.load.search is not None and client.stop_reason != "run_timeout":
            server = ServerSide.so_far(read_spool(self.out / "server.arrow", SERVER_SCHEMA), scraper.marks_ns)
            rows, plan = SpoolRows(self.out / "requests.arrow"), stage.plan
            self._course.add(summarise_stage(rows, plan, self.spec, client=client, server_of=server.of_stage))

    def _tick(self, stage: Stage, recorder: Recorder, now_ns: int) -> None:
        self._late(now_ns)
        if not self._reports.due(now_ns):
            return
        recorder.flush()
        elapsed_s = (now_ns - stage.begin_ns) / 1e9
        fraction = stage.fraction(now_ns)
        recent = sorted(recorder.recent_ttft_ms)
        in_flight = self._engine.in_flight if self._engine else 0
        self._reports.say(
            stage.phase(now_ns),
            (stage.plan.index + fraction) / self._course.total,
            stage=stage.plan.index,
            load=stage.plan.load,
            planned=stage.planned,
            sent=recorder.finished + in_flight,
            ok=recorder.ok,
            failed=recorder.failed,
            in_flight=in_flight,
            output_tokens_per_s=recorder.output_tokens / elapsed_s if elapsed_s > 0 else None,
            ttft_ms=recent[len(recent) // 2] if recent else None,
        )

    # results

    def _finish(
        self, where: Destination, checked: Checked, recorder: Recorder, sampler: Sampler, scraper: Scraper
    ) -> tuple[Exit, str, str]:
        rows = SpoolRows(self.out / "requests.arrow")
        samples = read_spool(self.out / "power.arrow", POWER_SCHEMA)
        server = ServerSide(read_spool(self.out / "server.arrow", SERVER_SCHEMA), scraper.describe())
        power = placed(sampler.describe(), self.spec.power, here=self._here, url=where.endpoint.url)
        summary = self._summarise(rows, samples, where, checked, power, server)
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
        rows: Rows,
        samples: pa.Table,
        where: Destination,
        checked: Checked,
        power: dict[str, Any],
        server: ServerSide,
    ) -> dict[str, Any]:
        power = self._idle.account(samples, power)
        template_tokens = checked.fit.overhead_tokens if checked.fit.checked else None
        stages = [
            summarise_stage(
                rows,
                plan,
                self.spec,
                client=client,
                server_of=server.of_stage,
                template_tokens=template_tokens,
            )
            for plan, client in self._stages
        ]
        energy = add_energy(stages, rows, samples, power, self.spec)
        engine, version = self._identity
        return summarise(
            rows,
            self.spec,
            stages,
            self._course.findings(),
            workload={
                "sent": self._material.words,
                "lengths_from": checked.lengths_from,
                "template_tokens": template_tokens,
            },
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
            **energy,
            power=power,
            server=server.account,
        )

    def _write(self, rows: Rows, samples: pa.Table, scraped: pa.Table, summary: dict[str, Any]) -> OSError | None:
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
    """Whether the run begins, and ends, with a reading of idle power."""
    power = spec.power
    return power.sampled and (power.idle_s > 0 or power.observer or power.waits_to_cool)
