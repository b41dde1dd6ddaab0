"""An instrument for tests that need one to misbehave: same command line, files and last words as the real one.

The model's name says what it does. Each request that it "sends" becomes a line in the file LEDGER.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from runners.load.records import Spool
from runners.load.rowfiles import SpoolRows, write_parquet

REQUEST_S = 0.05
stopped = False


def row(index: int, detail: str) -> dict[str, Any]:
    now = time.monotonic_ns()
    return {
        "stage": 0,
        "index": index,
        "warmup": False,
        "due_ns": now,
        "sent_ns": now,
        "first_token_ns": now + 1000,
        "last_token_ns": now + 9000,
        "outcome": "ok",
        "detail": detail,
        "output_tokens": 8,
    }


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def end(status: int, code: str = "", text: str = "") -> None:
    say(end=True, exit=status, valid=status == 0, code=code, text=text)
    sys.exit(status)


def summary(spec: dict[str, Any], ok: int, planned: int, valid: bool, note: str) -> dict[str, Any]:
    slower = spec["target"]["extra_body"].get("slower", 1)  # studies tell arms apart by it
    metrics = {
        "ttft_ms": {
            "mean": 12.5 * slower,
            "low": 11.0 * slower,
            "high": 14.0 * slower,
            "p50": 12.0 * slower,
            "p99": None,
            "n": ok,
            "mark": "measured",
        },
        "output_tokens_per_s": {"mean": 160.0, "n": ok, "mark": "measured"},
        "itl_ms": {"mean": float("nan"), "n": 0, "mark": "measured"},
        "wh_per_query": None,
    }
    stage = {
        "index": 0,
        "load": {"kind": "concurrency", "value": spec["load"]["levels"][0]},
        "verdict": "ok" if valid else "interrupted",
        "reasons": [],
        "planned": planned,
        "ok": ok,
        "failed": 0,
        "cancelled": 0,
        "not_sent": planned - ok,
        "failures": {},
        "window": {"kind": "steady", "seconds": 1.0},
        "metrics": metrics,
    }
    reasons = [] if valid else [{"code": "interrupted", "text": f"Stopped early {note}\x00"}]
    return {"definitions_version": 1, "valid": valid, "reasons": reasons, "spec": spec, "stages": [stage]}


def send(spec: dict[str, Any], out: Path, mode: str, key: str) -> int:
    planned = spec["load"]["requests"]
    with Spool(out / "requests.arrow") as spool, open(os.environ["LEDGER"], "a", buffering=1) as ledger:
        for index in range(planned):
            if stopped:
                return index
            ledger.write(f"{spec['salt']} {index}\n")
            spool.append(row(index, key if mode == "leak" else ""))
            spool.flush()
            say(t_s=index * REQUEST_S, phase="measure", sent=index + 1, ok=index, fraction=index / planned, key=key)
            if mode == "crash" and index == 5:
                print(f"about to crash {key}", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGSEGV)
            if mode == "silent" and index == 5:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(3600)
            time.sleep(REQUEST_S)
    return planned


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--files", type=Path)
    parser.add_argument("--progress")
    options = parser.parse_args()
    spec = json.loads(options.spec.read_text())
    mode = spec["target"]["model"]
    key = os.environ.get(spec["target"]["api_key_env"], "") if mode == "leak" else ""

    def stop(*_: Any) -> None:
        global stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    if mode == "unusable":
        end(3, "connect_refused", "Nothing listens at that address and port.")
    sent = send(spec, options.out, mode, key)
    valid = not stopped and mode != "invalid"
    (options.out / "summary.json").write_text(json.dumps(summary(spec, sent, spec["load"]["requests"], valid, key)))
    write_parquet(SpoolRows(options.out / "requests.arrow"), options.out / "requests.parquet")
    (options.out / "requests.arrow").unlink()
    end(130 if stopped else 4 if mode == "invalid" else 0)


if __name__ == "__main__":
    main()
