"""Asking an endpoint what it is, inside the web request and within a bound of time."""

from typing import Any

from django.utils import timezone

from observatory.catalog import wire
from observatory.catalog.models import Endpoint
from runners.probe import probe

PROBE_TIMEOUT_S = 10.0


def ask(endpoint: Endpoint) -> dict[str, Any]:
    """What the server answered, put on the endpoint (unsaved) too. No step takes longer than PROBE_TIMEOUT_S."""
    with wire.reachable(endpoint) as target:
        endpoint.probe = probe(target, endpoint.api_key, PROBE_TIMEOUT_S)
    endpoint.probed_at = timezone.now()
    if "unknown" in endpoint.probe["engine_version"]:
        endpoint.probe["engine_version"] = ""  # such as "b0-unknown" of a build that was not told its own version
    if not endpoint.model and endpoint.probe["models"]:
        endpoint.model = endpoint.probe["models"][0]
    return endpoint.probe
