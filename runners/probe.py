"""What stands at a URL: engine, models, and what it supports, each with its evidence."""

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import orjson

from runners.address import AddressError, ResolveError
from runners.load.answer import clean
from runners.load.check import Asker, Unusable, check, exchange_once, explain
from runners.load.target import Requests, api_key, base_endpoint, destination
from runners.load.transport import Destination
from runners.server.engines import engine_of, keys_of
from runners.server.exposition import ExpositionError
from runners.server.metrics import BY_KEY
from runners.spec import Dialect, SpecError, Target, Timeouts

_PAGE_TIMEOUTS = Timeouts(connect_s=3.0, first_byte_s=3.0, idle_s=3.0, total_s=5.0)


@dataclass(frozen=True)
class Page:
    status: int
    text: str
    json: Any
    server: str


def fetch(where: Destination, path: str, key: str = "") -> Page | None:
    """A GET beside the measurement, through the same pinned address; None when there is no answer."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {where.endpoint.authority}",
        "Accept-Encoding: identity",
        "Connection: close",
    ]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    exchange = exchange_once(where, _PAGE_TIMEOUTS, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    response = exchange.response
    if response.status is None or not response.complete:
        return None
    body = b"".join(piece for _, piece in response.body)
    server = response.headers.get(b"server", b"").decode("latin-1")
    return Page(response.status, body.decode("utf-8", "replace"), _json(body), server)


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _get(data: Any, *path: str) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def identify(where: Destination, key: str = "") -> tuple[str, str, str]:
    """(engine, version, evidence), each empty when the server does not tell."""
    props = fetch(where, "/props", key)
    if props and (props.server.startswith("llama.cpp") or _get(props.json, "default_generation_settings")):
        return "llama.cpp", clean(str(_get(props.json, "build_info") or "")), "/props answers in llama.cpp's form"
    ollama = fetch(where, "/api/version", key)
    if ollama and ollama.status == 200 and _get(ollama.json, "version"):
        return "Ollama", clean(str(ollama.json["version"])), "/api/version"
    info = fetch(where, "/info", key)
    if info and _get(info.json, "docker_label") is not None:
        return "TGI", clean(str(_get(info.json, "version") or "")), "/info answers in TGI's form"
    sglang = fetch(where, "/get_server_info", key)
    if sglang and sglang.status == 200 and isinstance(sglang.json, dict):
        return "SGLang", clean(str(_get(sglang.json, "version") or "")), "/get_server_info"
    vllm = fetch(where, "/version", key)
    if vllm and vllm.status == 200 and _get(vllm.json, "version"):
        return "vLLM", clean(str(vllm.json["version"])), "/version"
    return "", "", "no page of a known engine answers"


def models(where: Destination, key: str = "") -> tuple[list[str], str]:
    """(model names, evidence)."""
    path = f"{where.endpoint.base_path}/models"
    listed = fetch(where, path, key)
    if listed is None:
        return [], f"{path} gives no answer"
    data = _get(listed.json, "data")
    names = (
        [clean(str(item["id"])) for item in data if isinstance(item, dict) and item.get("id")]
        if isinstance(data, list)
        else []
    )
    return names, f"{path} answers {listed.status} with {len(names)} model(s)"


def probe(url: str, dialect: str = "", key: str = "", model: str = "", timeout_s: float = 15.0) -> dict[str, Any]:
    """{usable, code, text, url, dialect, model, models, engine, engine_version, checks}.

    ``checks`` are {name, label, ok: true | false | null, evidence}. Sends two or three requests of two output tokens.
    Never raises for what a server does.
    """
    result: dict[str, Any] = {
        "usable": False,
        "code": "",
        "text": "",
        "url": "",
        "dialect": dialect or Dialect.OPENAI_CHAT.value,
        "model": model,
        "models": [],
        "engine": "",
        "engine_version": "",
        "checks": [],
    }
    timeouts = Timeouts(connect_s=min(5.0, timeout_s), first_byte_s=timeout_s, idle_s=timeout_s, total_s=2 * timeout_s)
    try:
        endpoint = base_endpoint(url)
        result["url"] = endpoint.url
        where = destination(endpoint)
        _look(result, where, timeouts, key)
    except ResolveError as error:
        result |= {"code": str(error.outcome), "text": str(error)}
    except AddressError as error:
        result |= {"code": "bad_url", "text": str(error)}
    except Unusable as error:
        result |= {"code": error.code, "text": error.text}
    return result


def _look(result: dict[str, Any], where: Destination, timeouts: Timeouts, key: str) -> None:
    asker = Asker(where, timeouts)
    names, evidence = models(where, key)
    result["models"] = names
    _add(result, "models", "lists its models", bool(names), evidence)
    result["model"] = result["model"] or (names[0] if names else "")
    sender = Requests(where.endpoint, Dialect(result["dialect"]), result["model"], key=key)
    if not names:  # is anything there at all, before the engine's pages are asked for one by one
        row = asker.ask(sender, "Say hello.")
        if row["http_status"] is None:
            raise Unusable(row["outcome"], explain(row))
    engine, version, evidence = identify(where, key)
    result |= {"engine": engine, "engine_version": version}
    _add(result, "engine", "tells its engine", bool(engine) or None, evidence)
    checked = check(asker, sender, "probe")
    row = checked.row
    result["usable"] = True
    streams = "not_streaming" not in row["flags"]
    _add(
        result,
        "streaming",
        "streams",
        streams,
        f"{row['events']} token event(s), content type " + ("text/event-stream" if streams else "application/json"),
    )
    counted = row["token_source"] == "usage"  # noqa: S105
    _add(
        result,
        "usage",
        "counts tokens",
        counted,
        f"usage says {row['output_tokens']} output tokens" if counted else "no usage",
    )
    kept = "ignore_eos" not in checked.requests.omit
    _add(result, "ignore_eos", "takes ignore_eos", kept, "accepted" if kept else "refused with a 400")
    _add(
        result,
        "length",
        "counts prompt tokens",
        checked.fit.checked,
        f"{checked.fit.overhead_tokens:.0f} tokens of template, {checked.fit.tokens_per_word:.2f} per word",
    )
    _add(result, "metrics", "tells its own metrics", *_metrics(where, key))


def _metrics(where: Destination, key: str) -> tuple[bool, str]:
    """Whether a run will read the server's side too, and what of it."""
    page = fetch(where, "/metrics", key)
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


def _add(result: dict[str, Any], name: str, label: str, ok: bool | None, evidence: str) -> None:
    result["checks"].append({"name": name, "label": label, "ok": ok, "evidence": evidence})


# command line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url", required=True, help="the endpoint, such as http://gpu-1:8000 or https://api.example.com/v1"
    )
    parser.add_argument("--model", default="", help="model name (default: the first that the server lists)")
    parser.add_argument("--dialect", default=Dialect.OPENAI_CHAT.value, choices=list(Dialect))
    parser.add_argument("--api-key-env", default="", help="environment variable that holds the API key")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """0 usable, 2 usage, 3 not usable."""
    try:
        key = api_key(Target(args.url, api_key_env=args.api_key_env))
    except SpecError as error:
        print(error, file=sys.stderr)
        return 2
    result = probe(args.url, args.dialect, key, args.model)
    if args.json:
        print(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(result)
    return 0 if result["usable"] else 3


def _print(result: dict[str, Any]) -> None:
    print(f"{result['url'] or 'the URL'}: {'usable' if result['usable'] else 'not usable'}")
    if result["text"]:
        print(f"  {result['code']}: {result['text']}")
    if result["models"]:
        print(f"  models: {', '.join(result['models'])}")
    if result["engine"]:
        print(f"  engine: {result['engine']} {result['engine_version']}")
    for item in result["checks"]:
        sign = {True: "yes", False: "no ", None: "?  "}[item["ok"]]
        print(f"  {sign}  {item['label']}: {item['evidence']}")
