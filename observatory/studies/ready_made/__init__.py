"""Ready-made studies, a module each, in the order of their numbers."""

from observatory.studies.ready_made.base import ReadyMade, Short, Sketch, make

__all__ = ["BY_SLUG", "READY_MADE", "ReadyMade", "Short", "Sketch", "make"]

READY_MADE: tuple[ReadyMade, ...] = ()
BY_SLUG = {ready.slug: ready for ready in READY_MADE}
