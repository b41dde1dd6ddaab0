"""The result table for people at a terminal."""

import re
from typing import Any

from runners.metrics import BY_KEY, Mark, display

_COLUMNS = (
    ("TTFT p50", "ttft_ms", "p50"),
    ("TTFT p99", "ttft_ms", "p99"),
    ("TPOT p50", "tpot_ms", "p50"),
    ("E2E p50", "e2e_ms", "p50"),
    ("per user", "interactivity_tokens_per_s", "p50"),
    ("output", "output_tokens_per_s", "mean"),
    ("requests", "request_per_s", "mean"),
    ("goodput", "goodput_per_s", "mean"),
    ("energy/query", "wh_per_query", "mean"),
    ("cost/M output", "usd_per_mtok_output", "mean"),
)
#: Notes that hold for every run and concern no instrument in particular.
_GENERAL_NOTES = frozenset({"sampled_host"})
_SENTENCE_END = re.compile(r"(?<=\.)\s+(?=[A-Z])")
_MARKS = {str(Mark.MEASURED): "", str(Mark.MODELLED): "~", str(Mark.ASSUMED): "?"}


def cell(stage: dict[str, Any], key: str, statistic: str) -> str:
    """One number with its unit: "~" before a modelled one, "?" before an assumed one, a dash when missing."""
    metric = stage["metrics"].get(key)
    if metric is None:
        return "–"
    value = metric[statistic]
    if value is None:
        return f"n={metric['n']}"
    text, unit = display(value, BY_KEY[key].unit)
    return f"{_MARKS[metric['mark']]}{text} {unit}"


def table(summary: dict[str, Any], *, verbose: bool = False) -> str:
    """Failures first, then a row a stage; "n=12" stands where 12 values are too few for a percentile. ``verbose`` gives
    the notes on power in full, as summary.json holds them; else what each instrument is or lacks, in a sentence.
    """
    stages = summary["stages"]
    columns = [column for column in _COLUMNS if any(column[1] in stage["metrics"] for stage in stages)]
    head = ["load", "ok/planned", *(name for name, _, _ in columns), "verdict"]
    rows = [head]
    for stage in stages:
        counts = f"{stage['ok']}/{stage['planned']}"
        rows.append([_load(stage), counts, *(cell(stage, key, stat) for _, key, stat in columns), stage["verdict"]])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*_failure_lines(stages), *lines, *_notes(summary, verbose)])


def _load(stage: dict[str, Any]) -> str:
    load = stage["load"]
    return f"c={load['value']:g}" if load["kind"] == "concurrency" else f"{load['value']:g}/s"


def _failure_lines(stages: list[dict[str, Any]]) -> list[str]:
    failed = sum(stage["failed"] for stage in stages)
    planned = sum(stage["planned"] for stage in stages)
    lines = [f"{failed} of {planned} requests failed"]
    for stage in stages:
        for name, entry in stage["failures"].items():
            lines.append(f"  {_load(stage)} {name} x {entry['count']}: {entry['example'] or entry['help']}")
    return [*lines, ""]


def _notes(summary: dict[str, Any], verbose: bool) -> list[str]:
    lines = [""]
    marks = {metric["mark"] for stage in summary["stages"] for metric in stage["metrics"].values()}
    if str(Mark.MODELLED) in marks:
        lines.append("~ modelled, not measured")
    if str(Mark.ASSUMED) in marks:
        lines.append("? rests on an assumed input")
    said = set()
    for stage in summary["stages"]:
        for item in stage["reasons"]:
            if item["text"] not in said:
                said.add(item["text"])
                lines.append(f"{_load(stage)} {item['code']}: {item['text']}")
    for item in summary.get("power", {}).get("notes", []):
        if verbose:
            lines.append(f"power: {item['text']}")
        elif item["code"] not in _GENERAL_NOTES:
            lines.append(f"power: {_SENTENCE_END.split(item['text'], maxsplit=1)[0]}")
    return lines if len(lines) > 1 else []
