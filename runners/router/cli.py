"""``python -m runners router``: a router before servers that run already."""

import argparse
import sys

from runners.address import AddressError, parse_endpoint
from runners.engines import options
from runners.exits import Exit
from runners.router.options import POLICY, settings_of
from runners.router.serving import serve
from runners.router.settings import complaint
from runners.router.upstream import Upstream
from runners.strict_json import SpecError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--upstream", action="append", default=[], metavar="URL[=MODEL]",
        help="a server, and the model's name there; repeatable; of two models the small one first",
    )  # fmt: skip
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help=f"{', '.join(option.name for option in POLICY)}; repeatable; docs/engines.md says what they mean",
    )  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="where it listens")
    parser.add_argument("--port", type=int, default=0, help="port; 0 takes a free one (default)")


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT; prints one JSON line with the address when ready."""
    try:
        given = {
            name: options.named(POLICY, name, "--option").of_text(text)
            for name, text in options.pairs(args.option, "--option")
        }
        options.check(POLICY, given, "--option")
        upstreams = [upstream_of(index, text) for index, text in enumerate(args.upstream)]
        settings = settings_of(given)
        if found := complaint(settings, len(upstreams)):
            raise SpecError(f"--upstream: {found}")
        serve(settings, upstreams, args.host, args.port, lambda: "")
    except (SpecError, AddressError, OSError) as error:
        print(error, file=sys.stderr)
        return Exit.USAGE
    return Exit.VALID


def upstream_of(index: int, text: str) -> Upstream:
    """Of URL or URL=MODEL. Raises AddressError, SpecError."""
    url, _, model = text.partition("=")
    found = parse_endpoint(url)
    if found.tls or found.base_path:
        raise SpecError(f"--upstream: {url}: write it as http://HOST:PORT; the router speaks plain HTTP")
    return Upstream(str(index), found, model)
