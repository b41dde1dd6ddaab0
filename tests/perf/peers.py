"""Other load generators, run against the same server of known timing where they are installed (on PATH).

All three want a tokenizer to make their prompts: a folder with a ``tokenizer.json``. Their CPU time is that of the
whole process tree from start to end, start-up and report included; their commands as of the versions named.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LIMIT_S = 600


@dataclass(frozen=True)
class Load:
    """Requests of a case, and where the results go."""

    url: str
    streams: int
    requests: int
    tokens: int
    tokenizer: Path
    out: Path


@dataclass(frozen=True)
class Peer:
    """``read`` gives (p99 of TTFT, p99 of the gaps between events, answers that came), in milliseconds."""

    program: str
    arguments: Callable[[Load], list[str]]
    read: Callable[[Path], tuple[float, float, int]]

    @property
    def installed(self) -> bool:
        return shutil.which(self.program) is not None


def _vllm(load: Load) -> list[str]:
    """vllm 0.32."""
    return [
        *("bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions"),
        *("--base-url", load.url, "--model", "timing", "--tokenizer", str(load.tokenizer)),
        *("--dataset-name", "random", "--random-input-len", "16", "--random-output-len", str(load.tokens)),
        *("--num-prompts", str(load.requests), "--max-concurrency", str(load.streams), "--ignore-eos"),
        *("--save-result", "--result-dir", str(load.out), "--result-filename", "vllm.json", "--disable-tqdm"),
    ]


def _read_vllm(out: Path) -> tuple[float, float, int]:
    told = _json(out / "vllm.json")
    return told["p99_ttft_ms"], told["p99_itl_ms"], told["completed"]


def _guidellm(load: Load) -> list[str]:
    """guidellm 0.8."""
    return [
        *("run", "--disable-console", "--backend", f"kind=openai_http,target={load.url},model=timing"),
        *("--profile", f"kind=concurrent,streams={load.streams}"),
        *("--constraint", f"kind=max_requests,count={load.requests}"),
        *("--tokenizer", f"kind=hf_auto,model={load.tokenizer}"),
        *("--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={load.tokens}"),
        *("--output", f"kind=json,path={load.out / 'guidellm.json'}"),
    ]


def _read_guidellm(out: Path) -> tuple[float, float, int]:
    metrics = _json(out / "guidellm.json")["benchmarks"][0]["metrics"]
    ttft, gap = metrics["time_to_first_token_ms"]["successful"], metrics["inter_token_latency_ms"]["successful"]
    return ttft["percentiles"]["p99"], gap["percentiles"]["p99"], metrics["request_totals"]["successful"]


def _aiperf(load: Load) -> list[str]:
    """aiperf 0.13."""
    return [
        *("profile", "-m", "timing", "--url", load.url, "--endpoint-type", "chat", "--streaming", "--ui", "none"),
        *("--concurrency", str(load.streams), "--request-count", str(load.requests)),
        *("--isl", "16", "--osl", str(load.tokens), "--tokenizer", str(load.tokenizer)),
        *("--artifact-dir", str(load.out)),
    ]


def _read_aiperf(out: Path) -> tuple[float, float, int]:
    told = _json(out / "profile_export_aiperf.json")
    gap = told["inter_chunk_latency"] or told["inter_token_latency"]
    return told["time_to_first_token"]["p99"], gap["p99"], round(told["request_count"]["avg"])


PEERS = (
    Peer("vllm", _vllm, _read_vllm),
    Peer("guidellm", _guidellm, _read_guidellm),
    Peer("aiperf", _aiperf, _read_aiperf),
)


def run(peer: Peer, load: Load, pin: list[str]) -> dict[str, Any]:
    """Its figures in the keys of ``tests.perf.measure``. Raises RuntimeError with what it said last."""
    shutil.rmtree(load.out, ignore_errors=True)
    load.out.mkdir(parents=True)
    log = load.out / "log.txt"
    with log.open("wb") as words:
        process = subprocess.Popen(
            [*pin, "timeout", str(_LIMIT_S), peer.program, *peer.arguments(load)],
            stdout=words,
            stderr=subprocess.STDOUT,
            cwd=load.out,
        )
        _, status, usage = os.wait4(process.pid, 0)
    try:
        ttft_p99_ms, gap_p99_ms, ok = peer.read(load.out)
    except (OSError, ValueError, LookupError, TypeError) as error:
        last = " ".join(log.read_text(errors="replace").split())[-600:]
        raise RuntimeError(f"no result (exit {os.waitstatus_to_exitcode(status)}, {error!r}): {last}") from None
    return {
        "tokens": ok * load.tokens,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "ttft_p99_ms": float(ttft_p99_ms),
        "gap_p99_ms": float(gap_p99_ms),
        "rss_mb": usage.ru_maxrss / 1024,
    }


def _json(path: Path) -> Any:
    return json.loads(path.read_text())
