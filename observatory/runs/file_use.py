"""Who needs a workload file, and deleting one that nobody needs."""

from django.core.exceptions import ValidationError

from observatory.benchmarks import files
from observatory.benchmarks.models import WorkloadFile
from observatory.runs.models import Run


def needs(file: WorkloadFile) -> list[str]:
    """The benchmarks that name a file, and the runs that have not ended and will read it."""
    waiting = Run.objects.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING)).only("pk", "spec")
    runs = [str(run) for run in waiting if file.name in run.spec.get("files", {})]
    return [f"benchmark {item}" for item in files.users(file)] + runs


def delete(file: WorkloadFile) -> None:
    """Raises ValidationError while something needs it. Ended runs keep its name and SHA-256."""
    needed = needs(file)
    if needed:
        more = f" and {len(needed) - 3} more" if len(needed) > 3 else ""
        raise ValidationError(
            f"{file} is still needed by {', '.join(needed[:3])}{more}. Change or delete these first, or keep it."
        )
    stored = file.file
    file.delete()
    stored.delete(save=False)
