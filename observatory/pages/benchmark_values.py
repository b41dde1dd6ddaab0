"""Between the fields of the benchmark form and the workload and load of a specification: every field of these has one
field of the form.
"""

from collections.abc import Mapping
from typing import Any

from runners.sources import TraceForm

#: Field of the form -> field of the workload; those of the source come by its kind.
WORKLOAD = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "seed": "seed",
    "let_stop": "ignore_eos",
    "temperature": "temperature",
    "tokenizer": "tokenizer",
    "answers": "stream",
    "choices": "choices",
    "image_count": "images.count",
    "image_width_px": "images.width_px",
    "image_height_px": "images.height_px",
    "models": "models",
    "input_sweep": "input_sweep",
}
SOURCES: dict[str, dict[str, str]] = {
    "synthetic": {},
    "prefixes": {"prefix_groups": "groups", "prefix_tokens": "prefix_tokens", "prefix_zipf": "zipf"},
    "conversations": {
        "turns": "turns",
        "think_s": "think_s",
        "think_cv": "think_cv",
        "every_s": "every_s",
        "system_tokens": "system_tokens",
        "source_file": "file",
    },
    "agents": {
        "calls": "calls",
        "result_tokens": "result_tokens",
        "tool_s": "tool_s",
        "system_tokens": "system_tokens",
    },
    "prompts": {"source_file": "file"},
    "sharegpt": {"source_file": "file"},
    "trace": {"source_file": "file", "block_tokens": "block_tokens"},
}
LOAD = {
    "arrivals": "arrivals",
    "levels": "levels",
    "requests": "requests",
    "duration_s": "duration_s",
    "warmup_s": "warmup_s",
    "cooldown_s": "cooldown_s",
    "cv": "cv",
    "ramp_from": "ramp_from",
    "repeats": "repeats",
    "drain_s": "drain_s",
    "max_in_flight": "max_in_flight",
    "calibrate_s": "calibrate_s",
    "run_s": "run_s",
}
SEARCH = {"find": "goal", "search_share": "share", "search_tolerance": "tolerance", "max_stages": "max_stages"}

_MADE_UP = ("synthetic", "prefixes", "conversations", "agents")
_SINGLE = ("synthetic", "prefixes", "prompts", "sharegpt", "trace")
#: Fields that count only for some choices: the choosing field and its values.
ONLY: dict[str, tuple[str, tuple[str, ...]]] = {
    "source_file": ("kind", ("prompts", "sharegpt", "conversations", "trace")),
    "input_tokens": ("kind", _MADE_UP),
    "input_sweep": ("kind", _MADE_UP),
    "output_tokens": ("kind", (*_MADE_UP, "prompts", "sharegpt")),
    **dict.fromkeys(("image_count", "image_width_px", "image_height_px"), ("kind", _SINGLE)),
    **dict.fromkeys(("prefix_groups", "prefix_tokens", "prefix_zipf"), ("kind", ("prefixes",))),
    **dict.fromkeys(("turns", "think_s", "think_cv", "every_s"), ("kind", ("conversations",))),
    **dict.fromkeys(("calls", "result_tokens", "tool_s"), ("kind", ("agents",))),
    "system_tokens": ("kind", ("conversations", "agents")),
    "block_tokens": ("kind", ("trace",)),
    "cv": ("arrivals", ("gamma",)),
    "search_share": ("find", ("slo",)),
    "search_tolerance": ("find", ("slo",)),
    "max_stages": ("find", ("slo", "saturation")),
}


def counts(field: str, chosen: Mapping[str, Any]) -> bool:
    """Whether a field counts under what is chosen."""
    chooser, values = ONLY.get(field, ("", ()))
    return not chooser or (chosen.get(chooser) or "") in values


def asked(cleaned: Mapping[str, Any], kind_of_file: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(workload, load) of a form's cleaned values; what is empty is left to the specification's defaults.

    ``kind_of_file`` is that of the chosen file: it says which form a trace has.
    """
    given = {name: value for name, value in cleaned.items() if value not in (None, "") and counts(name, cleaned)}
    workload = _nested({path: given[name] for name, path in WORKLOAD.items() if name in given})
    workload["ignore_eos"] = not workload.get("ignore_eos", False)
    workload["stream"] = given.get("answers") != "whole"
    kind = given["kind"]
    workload["source"] = {"kind": kind, **{path: given[name] for name, path in SOURCES[kind].items() if name in given}}
    if kind == "trace":
        workload["source"]["form"] = kind_of_file if kind_of_file in set(TraceForm) else TraceForm.MOONCAKE.value
    if kind in ("prompts", "sharegpt", "trace"):
        workload["source"].setdefault("file", "")
    load = {path: given[name] for name, path in LOAD.items() if name in given}
    if "find" in given:
        load["search"] = {path: given[name] for name, path in SEARCH.items() if name in given}
    return workload, load


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, value in flat.items():
        outer, _, inner = path.rpartition(".")
        (found.setdefault(outer, {}) if outer else found)[inner] = value
    return found


def shown(workload: Mapping[str, Any], load: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values for a workload and load as JSON."""
    source, search = workload.get("source", {}), load.get("search") or {}
    kind = source.get("kind", "synthetic")
    found = {"kind": kind, **_taken(workload, WORKLOAD), **_taken(source, SOURCES.get(kind, {}))}
    found |= {**_taken(load, LOAD), **_taken(search, SEARCH)}
    if "answers" in found:
        found["answers"] = "stream" if found["answers"] else "whole"
    if "let_stop" in found:
        found["let_stop"] = not found["let_stop"]
    return found


def _taken(data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for name, path in names.items():
        outer, _, inner = path.rpartition(".")
        inside = data.get(outer, {}) if outer else data
        if inner in inside:
            found[name] = inside[inner]
    return found


#: Where a complaint belongs when it is about several fields, or about one that is not of the workload or load.
_ELSEWHERE = {
    "load": "requests",
    "load.search": "find",
    "load.search.goal": "find",
    "workload.images": "image_count",
    "workload.source": "kind",
    "workload.source.kind": "kind",
    "workload.source.form": "source_file",
    "power.source": "power_source",
    "shard.count": "load_hosts",
}


def field_of(path: str, kind: str) -> str:
    """The form's field for a path of the specification such as load.levels[0]; empty where there is none."""
    path = path.removeprefix("spec.").partition("[")[0]
    if path in _ELSEWHERE:
        return _ELSEWHERE[path]
    paths = {f"workload.{inner}": name for name, inner in WORKLOAD.items()}
    paths |= {f"workload.source.{inner}": name for name, inner in SOURCES.get(kind, {}).items()}
    paths |= {f"load.{inner}": name for name, inner in LOAD.items()}
    paths |= {f"load.search.{inner}": name for name, inner in SEARCH.items()}
    paths |= {f"slo.{name}": f"slo_{name}" for name in ("ttft_ms", "tpot_ms", "e2e_ms")}
    while path and path not in paths:  # such as workload.input_tokens.high
        path = path.rpartition(".")[0]
    return paths.get(path, "")
