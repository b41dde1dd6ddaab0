"""Task sets by name: the one that comes along, and those that people uploaded."""

from django.contrib.auth.models import User

from observatory.quality.models import TaskSet
from runners.quality import tasks
from runners.strict_json import SpecError


def names() -> list[str]:
    return [tasks.BUILT_IN, *TaskSet.objects.values_list("name", flat=True)]


def find(name: str) -> tasks.TaskSet:
    """Raises SpecError."""
    if name == tasks.BUILT_IN:
        return tasks.built_in()
    stored = TaskSet.objects.filter(name=name).first()
    if stored is None:
        raise SpecError(f"task_set: there is none called {name!r}; known are {', '.join(names())}")
    return tasks.parse(stored.lines.encode(), name)


def add(name: str, data: bytes, user: User | None) -> TaskSet:
    """Keeps a file of task lines under a name of its own. Raises SpecError that names the line."""
    name = name.strip()
    if not name or len(name) > 100 or "\x00" in name:
        raise SpecError("name: give the task set a name of 1 to 100 characters")
    if name in names():
        raise SpecError(f"name: {name!r} is taken; results must not mix two sets under one name. Choose another")
    parsed = tasks.parse(data, name)
    if b"\x00" in data or b"\\u0000" in data:
        raise SpecError(f"{name}: it holds a NUL character, which no database keeps; take it out")
    return TaskSet.objects.create(
        name=name, sha256=parsed.sha256, items=len(parsed.items), lines=data.decode(), created_by=user
    )
