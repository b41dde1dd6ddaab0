"""The table for people at a terminal."""

from typing import Any

from runners.metrics import significant


def percent(part: dict[str, Any]) -> str:
    """Such as "62.0 % (52.2 to 70.9)"; a dash without observations."""
    if part["share"] is None:
        return "–"
    return f"{100 * part['share']:.1f} % ({100 * part['low']:.1f} to {100 * part['high']:.1f})"


def table(quality: dict[str, Any]) -> str:
    """Failures first, then a row a kind and a topic; below it how far the reference agrees."""
    columns = [quality, *([quality["reference"]] if quality["reference"] else [])]
    heads = ["tasks", "accuracy, 95 %", "right/answered", "unanswered"]
    rows = [[*heads, *(["reference"] if len(columns) > 1 else [])]]
    for name, parts in _parts(columns):
        own = parts[0]
        counts = [f"{own['count']}/{own['n']}", str(own["unanswered"])]
        rows.append([name, percent(own), *counts, *(percent(part) for part in parts[1:])])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    failed = [f"failed: {fact['count']} x {name} ({fact['example']})" for name, fact in quality["failures"].items()]
    notes = [f"{item['code']}: {item['text']}" for item in quality["reasons"]]
    return "\n".join([*failed, *lines, *_agreement_lines(quality["agreement"]), *notes])


def _parts(columns: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    scores = [column["score"] for column in columns]
    found = [("all", [score["overall"] for score in scores])]
    for group in ("kinds", "topics"):
        found += [(f"  {name}", [score[group][name] for score in scores]) for name in scores[0][group]]
    return found


def _agreement_lines(agreement: dict[str, Any] | None) -> list[str]:
    if agreement is None:
        return []
    alike = agreement["identical"]
    lines = ["", f"identical answers   {percent(alike)}, {alike['count']}/{alike['n']}"]
    parted = agreement["first_difference"]
    if parted and parted["p50"] is not None:
        lines.append(f"first difference    median at {parted['unit'][:-1]} {parted['p50']:g}, earliest {parted['min']}")
    told = agreement["logprobs"]
    for label, key, unit in (("top-1 logprob", "top1", "mean |difference|"), ("KL, lower bound", "kl", "nats a token")):
        if told and told[key]:
            lines.append(f"{label:19s} {significant(told[key]['mean'])} {unit}, {told[key]['n']} places")
    flips = agreement["flips"]
    if flips["p_value"] is not None:
        lines.append(
            f"flips               {flips['right_to_wrong']} right to wrong, {flips['wrong_to_right']} wrong to right, "
            f"McNemar p = {significant(flips['p_value'])}"
        )
    return lines
