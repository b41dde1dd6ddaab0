"""A mistyped parameter is an error: ignored, ?stauts=lost would list every run as lost."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from ninja.operation import Operation

from observatory.api.auth import Request
from observatory.api.errors import Fault, refused


def known_only(view: Callable[..., Any]) -> Callable[..., Any]:
    """Answers 422 to a parameter that the operation does not have, once the token is accepted."""

    @wraps(view)
    def checked(request: Request, **values: Any) -> Any:
        known = _known(view._ninja_operation)  # type: ignore[attr-defined]
        unknown = sorted(request.GET.keys() - known)
        if unknown:
            words = f"no such parameter; known are {', '.join(sorted(known))}" if known else "takes no parameters"
            raise refused([Fault(field=name, problem=words) for name in unknown], reading=request.method == "GET")
        return view(request, **values)

    return checked


def _known(operation: Operation) -> set[str]:
    models = (model for model in operation.models if model.__ninja_param_source__ == "query")
    described = (operation.openapi_extra or {}).get("parameters", [])
    return {name for model in models for name in model.__ninja_flatten_map__} | {item["name"] for item in described}
