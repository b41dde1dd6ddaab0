"""``manage.py calc``: every calculator on the command line."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from observatory.theory import registry
from observatory.theory.calculator import Calculator, Refused
from observatory.theory.fields import Column, columns, worded, written


class Command(BaseCommand):
    help = "Calculate what theory allows. Without a name: list the calculators. With --help-inputs: explain the inputs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="Calculator, such as decode-limit")
        parser.add_argument("inputs", nargs="*", metavar="key=value", help="Inputs; those not given have defaults")
        parser.add_argument("--json", action="store_true", help="The whole answer as JSON")
        parser.add_argument("--help-inputs", action="store_true", help="Explain the inputs and what they rest on")

    def handle(self, *args: Any, name: str | None, inputs: list[str], **options: Any) -> None:
        if name is None:
            self.stdout.write(_listing())
            return
        calculator = registry.BY_NAME.get(name)
        if calculator is None:
            raise CommandError(f"There is no calculator {name!r}. `manage.py calc` lists them.")
        if options["help_inputs"]:
            self.stdout.write(_explained(calculator))
            return
        given = _pairs(inputs)
        try:
            read = calculator.read(given)
            outputs = calculator.run(read)
            answer = calculator.answer(given) if options["json"] else None
        except Refused as error:
            faults = (f"{fault.field}: {fault.problem} {fault.fix}".removeprefix(": ") for fault in error.faults)
            raise CommandError("\n".join(faults)) from None
        self.stdout.write(json.dumps(answer, indent=2, allow_nan=False) if answer else _told(calculator, read, outputs))


def _pairs(words: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise CommandError(f"{word!r} is not an input. Write key=value.")
        if key in pairs:
            raise CommandError(f"{key} is given twice. Give it once.")
        pairs[key] = value
    return pairs


def _listing() -> str:
    width = max(len(name) for name in registry.BY_NAME)
    return "\n".join(f"{name:<{width}}  {calculator.title}" for name, calculator in registry.BY_NAME.items())


def _explained(calculator: Calculator[Any, Any]) -> str:
    lines = [calculator.summary, "", *calculator.formula, ""]
    for entry in calculator.entries:
        about = entry.about
        bounds = f", {about.low:g} to {about.high:g}" if entry.is_number and about.low is not None else ""
        choices = f", one of {', '.join(entry.choices)}" if entry.choices else ""
        lines.append(
            f"{entry.name}={written(entry.default)} {about.unit}{bounds}{choices}: {about.help or about.label}"
        )
    return "\n".join([*lines, "", *calculator.assumptions, "", f"Source: {calculator.source}"])


def _told(calculator: Calculator[Any, Any], inputs: Any, outputs: Any) -> str:
    lines = [f"{calculator.title}: {', '.join(_stated(calculator, inputs))}"]
    for column in calculator.columns:
        value = getattr(outputs, column.name)
        if column.row is None:
            lines.append(f"{column.about.label}: {_cell(value, column)} {column.about.unit}".rstrip())
    for column in calculator.columns:
        if column.row is not None:
            lines += ["", column.about.label, *_table(columns(column.row), getattr(outputs, column.name))]
    return "\n".join(lines)


def _stated(calculator: Calculator[Any, Any], inputs: Any) -> list[str]:
    return [f"{entry.name}={written(getattr(inputs, entry.name))}" for entry in calculator.entries]


def _table(header: tuple[Column, ...], rows: tuple[Any, ...]) -> list[str]:
    lines = [[f"{column.about.label} {column.about.unit}".rstrip() for column in header]]
    lines += [[_cell(getattr(row, column.name), column) for column in header] for row in rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    return ["  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines]


def _cell(value: Any, column: Column) -> str:
    """Without the thin spaces of pages, so that programs can read it."""
    return worded(value, column.about).replace("\u2009", "")
