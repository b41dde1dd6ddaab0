"""Calculators: one address each, described from what the calculator declares."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Schema
from pydantic import create_model

from observatory.api.errors import Fault, Problem, refused
from observatory.api.shapes import ERRORS
from observatory.theory.calculator import Calculator, Refused
from observatory.theory.fields import Entry, columns, plain
from observatory.theory.registry import CALCULATORS

router = Router(tags=["calculators"])

_KINDS = {int: "integer", bool: "boolean", str: "string"}


class InputOut(Schema):
    """null bounds: none, or the input is no number. ``default`` null: unknown is allowed and is the default."""

    name: str
    label: str
    help: str
    unit: str
    low: float | None
    high: float | None
    choices: list[str]
    default: Any


class CalculatorOut(Schema):
    name: str
    title: str
    subject: str
    summary: str
    formula: list[str]
    assumptions: list[str]
    source: str
    inputs: list[InputOut]


@router.get("", summary="Every calculator with its inputs", response={200: list[CalculatorOut], **ERRORS})
def calculators(request: HttpRequest) -> Any:
    """Every calculator with its inputs."""
    return [_described(calculator) for calculator in CALCULATORS]


def _described(calculator: Calculator[Any, Any]) -> dict[str, Any]:
    words = {name: getattr(calculator, name) for name in ("name", "title", "subject", "summary", "source")}
    inputs = [_described_input(entry) for entry in calculator.entries]
    return words | {
        "formula": list(calculator.formula),
        "assumptions": list(calculator.assumptions),
        "inputs": inputs,
    }


def _described_input(entry: Entry) -> dict[str, Any]:
    about = entry.about
    return {
        "name": entry.name,
        "label": about.label,
        "help": about.help,
        "unit": about.unit,
        "low": about.low,
        "high": about.high,
        "choices": list(entry.choices),
        "default": plain(entry.default),
    }


def _answering(calculator: Calculator[Any, Any]) -> Callable[[HttpRequest], Any]:
    def answer(request: HttpRequest) -> Any:
        twice = [name for name in request.GET if len(request.GET.getlist(name)) > 1]
        if twice:
            raise refused([Fault(field=name, problem="It is given twice. Give it once.") for name in twice])
        try:
            return calculator.answer(request.GET.dict())
        except Refused as error:
            raise _problem(error) from None

    return answer


def _problem(error: Refused) -> Problem:
    return refused([Fault(field=fault.field, problem=f"{fault.problem} {fault.fix}") for fault in error.faults])


def _parameter(entry: Entry) -> dict[str, Any]:
    about = entry.about
    schema: dict[str, Any] = {"type": _KINDS.get(entry.kind, "number"), "default": plain(entry.default)}
    if entry.choices:
        schema |= {"type": "string", "enum": list(entry.choices)}
    if entry.is_series:
        schema |= {"type": "string", "default": ",".join(f"{item:g}" for item in entry.default)}
    if entry.is_number:
        schema |= {"minimum": about.low, "maximum": about.high}
    if entry.is_number and entry.default is None:  # an empty field of a form means: not given
        schema = {"anyOf": [{**schema, "default": None}, {"type": "string", "maxLength": 0}]}
    unit = f" [{about.unit}]" if about.unit else ""
    text = f"{about.label}{unit}. {about.help}".strip()
    return {"in": "query", "name": entry.name, "required": False, "description": text, "schema": schema}


def _model(name: str, kind: type[Any]) -> type[Schema]:
    """The shape of a dataclass of outputs."""
    fields: dict[str, Any] = {}
    for column in columns(kind):
        about = column.about
        text = ". ".join(part.rstrip(".") for part in (about.label, about.help, about.unit) if part)
        shape = list[_model(f"{name}_{column.name}", column.row)] if column.row else column.kind  # type: ignore[misc]
        fields[column.name] = (shape, Field(description=text))
    return create_model(name, __base__=Schema, **fields)


def _response(calculator: Calculator[Any, Any]) -> type[Schema]:
    """The shape of an answer. The inputs are told back as they were taken, defaults included."""
    name = "".join(part.title() for part in calculator.name.split("-"))
    outputs = _model(f"{name}Results", calculator.outputs)
    return create_model(
        f"{name}Out", __base__=Schema, calculator=(str, ...), inputs=(dict[str, Any], ...), outputs=(outputs, ...)
    )


for _calculator in CALCULATORS:
    router.add_api_operation(
        f"/{_calculator.name}",
        ["GET"],
        _answering(_calculator),
        response={200: _response(_calculator), **ERRORS},
        operation_id=f"calc_{_calculator.name.replace('-', '_')}",
        summary=_calculator.title,
        description=_calculator.summary,
        openapi_extra={"parameters": [_parameter(entry) for entry in _calculator.entries]},
    )
