"""Workload files: list, upload, download, delete."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import FileResponse, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from observatory.benchmarks import files
from observatory.benchmarks.models import WorkloadFile
from observatory.pages.access import Request
from observatory.pages.twins import answer, facts
from observatory.runs import file_use
from runners.workload_files import FileKind

KINDS = (
    (FileKind.PROMPTS, "Prompts or chats, JSON lines"),
    (FileKind.CHATS, "Recorded chats, ShareGPT form"),
    (FileKind.MOONCAKE, "Trace, Mooncake form"),
    (FileKind.BURSTGPT, "Trace, BurstGPT form"),
    (FileKind.AZURE, "Trace, Azure form"),
    (FileKind.LENGTHS, "Lengths, one a line"),
    (FileKind.TOKENIZER, "tokenizer.json or GGUF of a model"),
)
COLUMNS = {
    "id": "pk",
    "name": "name",
    "kind": "kind",
    "size_bytes": "size_bytes",
    "sha256": "sha256",
    "facts": "facts",
    "created_at": "created_at",
}


class UploadForm(forms.Form):
    file = forms.FileField(help_text="It is read when it arrives; one that cannot be used is refused with the line.")
    kind = forms.ChoiceField(choices=KINDS, label="What it holds")
    name = forms.CharField(
        required=False, max_length=100, help_text="Under which benchmarks name it; empty: the name of the file."
    )


@login_required
def workload_files(request: Request, form: str = "html") -> HttpResponseBase:
    """All workload files, and the form that takes one more."""
    upload = UploadForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and upload.is_valid():
        try:
            kept = files.keep(**_arguments(upload.cleaned_data), user=request.user)
        except ValidationError as error:
            _show(upload, error)
        else:
            messages.success(request, f"{kept} is kept{_entries(kept)}.")
            return redirect("workload-files")
    found = WorkloadFile.objects.select_related("created_by")
    return answer(
        request,
        form,
        "benchmarks/files.html",
        {"files": found, "form": upload},
        rows=lambda: (facts(item, COLUMNS) for item in found),
        columns=COLUMNS,
    )


def _show(upload: UploadForm, error: ValidationError) -> None:
    for field, words in error.message_dict.items():
        upload.add_error(field if field in upload.fields else None, words)


def _arguments(cleaned: dict[str, Any]) -> dict[str, Any]:
    return {"data": cleaned["file"], "name": cleaned["name"], "kind": cleaned["kind"]}


def _entries(kept: WorkloadFile) -> str:
    return f": {kept.facts['entries']} entries" if "entries" in kept.facts else ""


@login_required
def content(request: Request, pk: int) -> FileResponse:
    """The file as it was uploaded."""
    found = get_object_or_404(WorkloadFile, pk=pk)
    return FileResponse(found.file.open("rb"), as_attachment=True, filename=found.name)


@login_required
@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Deletes a file that nothing needs any more."""
    found = get_object_or_404(WorkloadFile, pk=pk)
    try:
        file_use.delete(found)
    except ValidationError as error:
        messages.error(request, " ".join(error.messages))
    else:
        messages.success(request, f"{found} is deleted.")
    return redirect("workload-files")
