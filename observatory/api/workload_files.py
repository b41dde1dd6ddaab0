from datetime import datetime
from typing import Annotated, Any

from django.core.exceptions import ValidationError
from django.http import FileResponse
from ninja import Field, File, Form, Query, Router, Schema, Status, UploadedFile

from observatory.api.auth import Request
from observatory.api.errors import Problem
from observatory.api.records import get, problem_of
from observatory.api.shapes import BAD_BODY, CONFLICT, ERRORS, NOT_FOUND, Line, Listed, Page, PathKey, page_of
from observatory.benchmarks import files
from observatory.benchmarks.models import WorkloadFile
from observatory.runs import file_use
from runners.workload_files import FileKind

_ANY = "application/octet-stream"

router = Router(tags=["workload files"])


class WorkloadFileOut(Schema):
    """``facts`` tell what was found in it, such as its entries."""

    id: int
    name: str
    kind: str
    size_bytes: int
    sha256: str
    facts: dict[str, float]
    created_at: datetime


class UploadIn(Schema):
    """Beside the file itself."""

    kind: Annotated[FileKind, Field(description="What it holds; docs/workloads.md describes the forms")]
    name: Annotated[
        Line, Field(max_length=100, description="Under which workloads name it; empty: that of the upload")
    ] = ""


@router.get("", summary="All workload files", response={200: Listed[WorkloadFileOut], **ERRORS})
def workload_files(request: Request, page: Query[Page]) -> Any:
    return page_of(WorkloadFile.objects.all(), page)


@router.post("", summary="Upload a workload file", response={201: WorkloadFileOut, **ERRORS, **CONFLICT, **BAD_BODY})
def upload_workload_file(request: Request, file: File[UploadedFile], about: Form[UploadIn]) -> Any:
    """A form with the parts file, kind and name. It is read at once; what cannot be used is refused with its line."""
    try:
        return Status(201, files.keep(file, about.name, about.kind, request.auth))
    except ValidationError as error:
        raise problem_of(error) from None


@router.get("/{key}", summary="One workload file", response={200: WorkloadFileOut, **ERRORS, **NOT_FOUND})
def workload_file(request: Request, key: PathKey) -> Any:
    return get(WorkloadFile.objects.all(), key)


@router.get(
    "/{key}/content",
    summary="The file as it was uploaded",
    response={**ERRORS, **NOT_FOUND},
    openapi_extra={"responses": {200: {"description": "The file", "content": {_ANY: {}}}}},
)
def workload_file_content(request: Request, key: PathKey) -> Any:
    found = get(WorkloadFile.objects.all(), key)
    return FileResponse(found.file.open("rb"), as_attachment=True, filename=found.name, content_type=_ANY)


@router.delete("/{key}", summary="Delete a workload file", response={204: None, **ERRORS, **NOT_FOUND, **CONFLICT})
def delete_workload_file(request: Request, key: PathKey) -> Any:
    """Not while a benchmark names it or a run waits for it. Ended runs keep its name and SHA-256."""
    try:
        file_use.delete(get(WorkloadFile.objects.all(), key))
    except ValidationError as error:
        raise Problem(409, "in_use", " ".join(error.messages), "Change or delete what needs it first.") from None
    return Status(204, None)
