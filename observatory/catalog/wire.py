"""How requests reach an endpoint, in the form of a specification. Its PEM texts become files beside that."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError

from runners.address import AddressError, parse_endpoint
from runners.load.target import tls_context
from runners.spec import Dialect, Load, RunSpec, ServerMetrics, SpecError, Target

if TYPE_CHECKING:
    from observatory.catalog.models import Endpoint

CA_FILE, CLIENT_FILE = "ca.pem", "client.pem"

#: Where a complaint of the specification belongs.
_FIELDS = {
    "target.url": "url",
    "target.api_key_header": "api_key_header",
    "target.extra_body": "extra_body",
    "target.ca_file": "ca_pem",
    "target.client_cert_file": "client_pem",
    "target.proxy": "proxy",
    "server.url": "metrics_url",
}


def target(endpoint: "Endpoint", api_key_env: str = "") -> dict[str, Any]:
    """The ``target`` of a specification; file names are relative to the folder of ``write_files``."""
    return {
        "url": endpoint.url,
        "model": endpoint.model,
        "dialect": endpoint.dialect,
        "api_key_env": api_key_env if endpoint.api_key else "",
        "api_key_header": endpoint.api_key_header,
        "extra_body": endpoint.extra_body,
        "extra_headers": endpoint.extra_headers,
        "ca_file": CA_FILE if endpoint.ca_pem else "",
        "client_cert_file": CLIENT_FILE if endpoint.client_pem else "",
        "proxy": endpoint.proxy,
    }


def write_files(endpoint: "Endpoint", directory: Path) -> None:
    """The files that ``target`` names, readable by their owner only. Raises OSError."""
    for name, pem in ((CA_FILE, endpoint.ca_pem), (CLIENT_FILE, endpoint.client_pem)):
        if pem:
            descriptor = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(pem)


@contextmanager
def reachable(endpoint: "Endpoint") -> Iterator[Target]:
    """The target with its files in a folder that is there for as long as the block runs."""
    with TemporaryDirectory() as folder:
        write_files(endpoint, Path(folder))
        found = Target(**target(endpoint) | {"dialect": Dialect(endpoint.dialect)})
        files: dict[str, Any] = {
            name: str(Path(folder, file)) for name in ("ca_file", "client_cert_file") if (file := getattr(found, name))
        }
        yield replace(found, **files)


def check(endpoint: "Endpoint") -> None:
    """Raises ValidationError at the field that is wrong, with the fix; never repeats a secret."""
    for field in ("extra_headers", "extra_body"):
        if not isinstance(getattr(endpoint, field), dict):
            raise ValidationError({field: "Give an object; {} for none."})
    try:
        with reachable(endpoint) as found:
            RunSpec(found, load=Load(requests=1), server=ServerMetrics(url=endpoint.metrics_url))
            if found.ca_file or found.client_cert_file:
                tls_context(found)
    except SpecError as error:
        path, _, words = str(error).partition(": ")
        field = "extra_headers" if path.startswith("target.extra_headers") else _FIELDS.get(path, "")
        words = words.replace("in it or in target.client_key_file", "in the same text")
        raise ValidationError({field or "__all__": f"{words[:1].upper()}{words[1:]}."}) from None
    for field in ("proxy", "metrics_url"):
        try:
            if getattr(endpoint, field):
                parse_endpoint(getattr(endpoint, field))
        except AddressError as error:
            raise ValidationError({field: str(error)}) from None
