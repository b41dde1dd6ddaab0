"""Task sets by name: the one that comes along, and those that people uploaded."""

from django.contrib.auth.models import User

from observatory.quality.models import TaskSet
from runners.quality import tasks
from runners.strict_json import SpecError


def names() -> list[str]:
    return [tasks.BUILT_IN, *TaskSet.objects.values_list("name", flat=True)]


def find(name: str, questions: int | None = None) -> tasks.TaskSet:
    """``questions``: only so many of it, evenly spread, under a name that says so. Raises SpecError."""
    found = _find(name)
    if questions is None or questions == len(found.items):
        return found
    if not 1 <= questions <= len(found.items):
        raise SpecError(f"questions: {name} has {len(found.items)}; give fewer, or leave it out for all")
    places = [index * len(found.items) // questions for index in range(questions)]
    shorter = f"{name}, {questions} of {len(found.items)}"
    return tasks.TaskSet(shorter, tuple(found.items[place] for place in places))


def _find(name: str) -> tasks.TaskSet:
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
