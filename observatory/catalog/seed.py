"""Known accelerators, prices and sites, from the CSV files beside this module; each row names its source.

Only rows that nobody has changed are updated: each seeded row keeps a fingerprint of what the seed wrote into it. A row
whose values no longer match it, or that people made themselves under the same name, stays as it is.
"""

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import models, transaction

from observatory.catalog.models import Accelerator, AcceleratorPrice, EmbodiedFactors, Site, SiteFactors

DATA = Path(__file__).resolve().parent / "data"

Row = dict[str, Any]


class SeedError(ValueError):
    """A row of the data files is not valid; the message names the file, the row and the fault."""


@dataclass(frozen=True)
class Table:
    file: str
    model: type[models.Model]
    key: tuple[str, ...]

    @property
    def label(self) -> str:
        return str(self.model._meta.verbose_name_plural)


TABLES = (
    Table("accelerators.csv", Accelerator, ("slug",)),
    Table("prices.csv", AcceleratorPrice, ("accelerator", "provider", "kind", "effective_from")),
    Table("embodied_factors.csv", EmbodiedFactors, ("accelerator", "effective_from")),
    Table("sites.csv", Site, ("slug",)),
    Table("site_factors.csv", SiteFactors, ("site", "effective_from")),
)


def seed(data: Path = DATA) -> dict[str, Counter[str]]:
    """Per table, how many rows were created, updated, unchanged, or kept because people had changed them.

    Raises SeedError, and then nothing is changed.
    """
    with transaction.atomic():
        return {table.label: _seed_table(table, data) for table in TABLES}


def _seed_table(table: Table, data: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    related = [field.name for field in table.model._meta.concrete_fields if field.is_relation]
    rows = table.model._default_manager.select_related(*related)
    there = {tuple(getattr(row, name) for name in table.key): row for row in rows}
    with (data / table.file).open(newline="", encoding="utf-8") as file:
        for number, cells in enumerate(csv.DictReader(file, strict=True), start=2):
            try:
                row = {name: _value(table.model, name, text) for name, text in cells.items()}
                counts[_put(table, row, there.get(tuple(row[name] for name in table.key)))] += 1
            except (ValueError, ArithmeticError, ValidationError, ObjectDoesNotExist) as error:
                raise SeedError(f"{table.file}, row {number}: {error}") from error
    return counts


def _value(model: type[models.Model], name: str, text: str) -> Any:
    field = model._meta.get_field(name)
    if text == "" and isinstance(field, models.Field) and field.null:
        return None
    if isinstance(field, models.ForeignKey):
        return field.related_model._default_manager.get(slug=text)
    kinds: dict[type[Any], Callable[[str], Any]] = {
        models.FloatField: float,
        models.DecimalField: Decimal,
        models.DateField: date.fromisoformat,
    }
    return kinds.get(type(field), str)(text)


def _put(table: Table, row: Row, there: models.Model | None) -> str:
    """Creates a row or updates the one that is ``there``, and says which."""
    if there is not None:
        held = getattr(there, "seeded", "")
        if held != _fingerprint({name: getattr(there, name) for name in row}):
            return "kept"
        if held == _fingerprint(row):
            return "unchanged"
    item = there or table.model()
    for name, value in (*row.items(), ("seeded", _fingerprint(row))):
        setattr(item, name, value)
    item.full_clean()
    item.save()
    return "updated" if there else "created"


def _fingerprint(row: Row) -> str:
    plain = {name: _plain(value) for name, value in row.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, models.Model):
        return value.pk
    if isinstance(value, date):
        return value.isoformat()
    return str(value.normalize()) if isinstance(value, Decimal) else value
