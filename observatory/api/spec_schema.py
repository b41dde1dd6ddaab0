"""Parts of a specification in the description of the API. They are read by the specification's own reader, not here."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetJsonSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema


@dataclass(frozen=True)
class FormOf:
    """Annotates a dictionary: it is described as the dataclass ``kind``, and taken as it comes."""

    kind: type[Any]

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(handler(TypeAdapter(self.kind).core_schema))
