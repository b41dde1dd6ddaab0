"""What stands at a URL: engine, models, and what it supports, each with its evidence."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from runners.address import AddressError, ResolveError
from runners.load.answer import clean
from runners.load.check import Asker, Checked, OnTick, Unusable, check, exchange_once, explain
from runners.load.dialects.base import words_of
from runners.load.target import Requests, api_key, base_endpoint, destination
from runners.load.transport import Destination
from runners.server.engines import engine_of, keys_of
from runners.server.exposition import ExpositionError
from runners.server.metrics import BY_KEY
from runners.spec import SpecError, Target, Timeouts, check_target
from runners.target_options import add_target, add_wire, target_of

_PAGE_TIMEOUTS = Timeouts(connect_s=3.0, first_byte_s=3.0, idle_s=3.0, total_s=5.0)


@dataclass(frozen=True)
class Page:
    status: int
    text: str
    json: Any
    server: str


def fetch(where: Destination, path: str, headers: Sequence[str] = (), on_tick: OnTick | None = None) -> Page | None:
    """A GET beside the measurement, through the same pinned address; None when there is no answer.

    ``headers`` are whole lines, such as ``Requests.headers``.
    """
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {where.endpoint.authority}",
        "Accept-Encoding: identity",
        "Connection: close",
        *headers,
    ]
    exchange = exchange_once(where, _PAGE_TIMEOUTS, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), 0, on_tick)
    response = exchange.response
    if response.status is None or not response.complete:
        return None
    body = response.body().data
    server = response.headers.get(b"server", b"").decode("latin-1")
    return Page(response.status, body.decode("utf-8", "replace"), _json(body), server)


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _version(text: str) -> str:
    """Empty where a build does not know its own version, as llama.cpp's "b0-unknown"."""
    return "" if "unknown" in text.lower() else text


def _get(data: Any, *path: str) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def identify(
    where: Destination, headers: Sequence[str] = (), *, secret: str = "", on_tick: OnTick | None = None
) -> tuple[str, str, str]:
    """(engine, version, evidence), each empty when the server does not tell. ``on_tick`` may raise to give up."""

    def told(page: Page, name: str) -> str:
        return _version(clean(words_of(_get(page.json, name) or ""), secret))

    props = fetch(where, "/props", headers, on_tick)
    if props and (props.server.startswith("llama.cpp") or _get(props.json, "default_generation_settings")):
        return "llama.cpp", told(props, "build_info"), "/props answers in llama.cpp's form"
    info = fetch(where, "/info", headers, on_tick)
    if info and _get(info.json, "docker_label") is not None:
        return "TGI", told(info, "version"), "/info answers in TGI's form"
    for engine, path, wanted in _VERSION_PAGES:
        page = fetch(where, path, headers, on_tick)
        if page and page.status == 200 and wanted(page.json):
            return engine, told(page, "version"), path
    return "", "", "no page of a known engine answers"


#: Engine, the page that only it has, and what tells it from others.
_VERSION_PAGES: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("Ollama", "/api/version", lambda data: bool(_get(data, "version"))),
    ("SGLang", "/get_server_info", lambda data: isinstance(data, dict)),
    ("Triton", "/v2", lambda data: _get(data, "name") == "triton"),
    ("vLLM", "/version", lambda data: bool(_get(data, "version"))),
)


def models(where: Destination, requests: Requests) -> tuple[list[str], str]:
    """(model names, evidence)."""
    if not requests.form.models_path:
        return [], "this dialect has no list of models"
    path = f"{where.endpoint.base_path}{requests.form.models_path}"
    listed = fetch(where, path, requests.headers)
    if listed is None:
        return [], f"{path} gives no answer"
    names = _names(listed.json, requests.key)
    return names, f"{path} answers {listed.status} with {len(names)} model(s)"


def _names(data: Any, secret: str) -> list[str]:
    """OpenAI lists under data, Ollama under models; TGI serves one model and names it."""
    listed = _get(data, "data") or _get(data, "models") or [{"id": _get(data, "model_id")}]
    if not isinstance(listed, list):
        return []
    return [clean(words_of(name), secret) for item in listed if (name := _get(item, "id") or _get(item, "name"))]


def probe(target: Target, key: str = "", timeout_s: float = 15.0) -> dict[str, Any]:
    """{usable, code, text, url, dialect, model, models, engine, engine_version, checks}.

    ``checks`` are {name, label, ok: true | false | null, evidence}. Sends two or three requests of two output tokens.
    Never raises for what a server does.
    """
    result: dict[str, Any] = {
        "usable": False,
        "code": "",
        "text": "",
        "url": "",
        "dialect": target.dialect.value,
        "model": target.model,
        "models": [],
        "engine": "",
        "engine_version": "",
        "checks": [],
    }
    timeouts = Timeouts(connect_s=min(5.0, timeout_s), first_byte_s=timeout_s, idle_s=timeout_s, total_s=2 * timeout_s)
    try:
        endpoint = base_endpoint(target.url, target.dialect)
        result["url"] = endpoint.url
        _look(result, Asker(destination(endpoint, target), timeouts), target, key)
    except ResolveError as error:
        result |= {"code": str(error.outcome), "text": str(error)}
    except AddressError as error:
        result |= {"code": "bad_url", "text": str(error)}
    except SpecError as error:
        result |= {"code": "usage", "text": str(error)}
    except Unusable as error:
        result |= {"code": error.code, "text": error.text}
    return result


def _look(result: dict[str, Any], asker: Asker, target: Target, key: str) -> None:
    where = asker.destination
    sender = Requests(where.endpoint, target, key=key)
    names, evidence = models(where, sender)
    result["models"] = names
    _add(result, "models", "lists its models", bool(names), evidence)
    result["model"] = target.model or (names[0] if names else "")
    sender = replace(sender, target=replace(target, model=result["model"]))
    if not names:  # is anything there at all, before the engine's pages are asked for one by one
        row = asker.ask(sender, "Say hello.")
        if row["http_status"] is None:
            raise Unusable(row["outcome"], explain(row))
    engine, version, evidence = identify(where, sender.headers, secret=sender.key)
    result |= {"engine": engine, "engine_version": version}
    _add(result, "engine", "tells its engine", bool(engine) or None, evidence)
    checked = check(asker, sender, "probe")
    result["usable"] = True
    if sender.form.generates:
        _add_generation(result, checked)
    fit = checked.fit
    words = f"{fit.overhead_tokens:.0f} tokens of template, {fit.tokens_per_word:.2f} per word"
    _add(result, "length", "counts prompt tokens", fit.checked, words if fit.checked else "no prompt tokens told")
    _add(result, "metrics", "tells its own metrics", *_metrics(where, sender.headers))


def _metrics(where: Destination, headers: Sequence[str]) -> tuple[bool, str]:
    """Whether a run will read the server's side too, and what of it."""
    page = fetch(where, "/metrics", headers)
    if page is None or page.status != 200:
        return False, f"/metrics answers {page.status}" if page else "/metrics gives no answer"
    engine = engine_of(page.text)
    if engine is None:
        return False, "/metrics answers, with no metrics that are known"
    try:
        offered = [BY_KEY[key].label.lower() for key in keys_of(engine.read(page.text))]
    except ExpositionError as error:
        return False, f"/metrics of {engine.engine}: {error}"
    return True, f"/metrics of {engine.engine}: {', '.join(offered)}"


def _add_generation(result: dict[str, Any], checked: Checked) -> None:
    """What the check's first answer showed of streaming and counting."""
    row, form = checked.row, checked.requests.form
    streams = "not_streaming" not in row["flags"]
    kind = form.framing.content_types[0] if streams else "application/json"
    _add(result, "streaming", "streams", streams, f"{row['events']} token event(s), content type {kind}")
    counted = row["token_source"] == "usage"  # noqa: S105
    told = f"usage says {row['output_tokens']} output tokens" if counted else "no usage"
    _add(result, "usage", "counts tokens", counted, told)
    if "ignore_eos" in form.optional:
        kept = "ignore_eos" not in checked.requests.omit
        _add(result, "ignore_eos", "takes ignore_eos", kept, "accepted" if kept else "refused with a 400")


def _add(result: dict[str, Any], name: str, label: str, ok: bool | None, evidence: str) -> None:
    result["checks"].append({"name": name, "label": label, "ok": ok, "evidence": evidence})


# command line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser.add_argument_group("endpoint"))
    add_wire(parser.add_argument_group("how requests go out"))
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """0 usable, 2 usage, 3 not usable."""
    try:
        if not args.url:
            raise SpecError("--url: say which endpoint to ask, such as --url http://localhost:8000")
        target = target_of(args)
        check_target(target)
        key = api_key(target)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 2
    result = probe(target, key)
    if args.json:
        print(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(result)
    return 0 if result["usable"] else 3


def _print(result: dict[str, Any]) -> None:
    usable = "usable" if result["usable"] else "not usable"
    print(f"{result['url']}: {usable}" if result["url"] else "This URL cannot be used.")
    if result["text"]:
        print(f"  {result['code']}: {result['text']}")
    if result["models"]:
        print(f"  models: {', '.join(result['models'])}")
    if result["engine"]:
        print(f"  engine: {result['engine']} {result['engine_version']}")
    for item in result["checks"]:
        sign = {True: "yes", False: "no ", None: "?  "}[item["ok"]]
        print(f"  {sign}  {item['label']}: {item['evidence']}")
