"""Options of every command that asks an endpoint: where it is, and how requests go out."""

import argparse
from typing import Any

import orjson

from runners.spec import Dialect, Target


def add_target(group: Any) -> None:
    group.add_argument("--url", help="such as http://gpu-1:8000 or https://api.example.com/v1")
    group.add_argument("--model", default="", help="model name as the server expects it")
    group.add_argument("--dialect", choices=list(Dialect), default=Dialect.OPENAI_CHAT.value,
                       help="the wire form that the endpoint speaks")  # fmt: skip
    group.add_argument("--api-key-env", default="", metavar="NAME", help="environment variable that holds the API key")


def add_wire(group: Any) -> None:
    group.add_argument(
        "--api-key-header", default="", metavar="HEADER", help='"x-api-key" or "Authorization: Bearer" (by dialect)'
    )
    group.add_argument(
        "--body",
        action="append",
        type=_body_field,
        default=[],
        metavar="KEY=JSON",
        help="a body field more; repeatable",
    )
    group.add_argument(
        "--header", action="append", type=_pair, default=[], metavar="NAME=VALUE", help="a header more; repeatable"
    )
    group.add_argument("--ca-file", default="", metavar="PEM", help="trust these authorities, not the system's")
    group.add_argument("--client-cert", default="", metavar="PEM", help="certificate for servers that ask for one")
    group.add_argument("--client-key", default="", metavar="PEM", help="its key, when it is not in the same file")
    group.add_argument(
        "--proxy", default="", metavar="URL", help="tunnel through this proxy; those of the environment are not used"
    )


def target_of(args: argparse.Namespace) -> Target:
    return Target(
        url=args.url,
        model=args.model,
        dialect=Dialect(args.dialect),
        api_key_env=args.api_key_env,
        api_key_header=args.api_key_header,
        extra_body=dict(args.body),
        extra_headers=dict(args.header),
        ca_file=args.ca_file,
        client_cert_file=args.client_cert,
        client_key_file=args.client_key,
        proxy=args.proxy,
    )


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: write it as name=value")
    return name, value


def _body_field(text: str) -> tuple[str, Any]:
    name, value = _pair(text)
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        raise argparse.ArgumentTypeError(f"{value!r} is not JSON; put texts in quotes: {name}='\"text\"'") from None
