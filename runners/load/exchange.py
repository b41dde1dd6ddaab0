"""One request and what came back, while it is in flight."""

from runners.load.framing import Response
from runners.load.outcomes import Outcome
from runners.load.workloads.base import Turn


class Exchange:
    """Stamps are CLOCK_MONOTONIC nanoseconds; 0 means not yet. ``outcome`` stays None until the transport decides."""

    __slots__ = (
        "address",
        "asked_input_tokens",
        "asked_output_tokens",
        "connect_ns",
        "detail",
        "due_ns",
        "end_ns",
        "index",
        "level",
        "model",
        "outcome",
        "ready_ns",
        "request",
        "response",
        "retried",
        "sent_ns",
        "stage",
        "turn",
        "unsent",
        "warmup",
    )

    def __init__(
        self,
        request: bytes,
        *,
        stage: int = 0,
        level: float = 0.0,
        index: int = 0,
        model: str = "",
        asked_input_tokens: int | None = None,
        asked_output_tokens: int = 0,
        turn: Turn | None = None,
    ) -> None:
        self.request = request
        self.stage = stage
        self.level = level
        self.index = index
        self.model = model
        self.address = ""
        self.asked_input_tokens = asked_input_tokens
        self.asked_output_tokens = asked_output_tokens
        self.turn = turn
        self.warmup = False
        self.due_ns = 0
        self.ready_ns = 0
        self.sent_ns = 0
        self.connect_ns: int | None = None
        self.end_ns = 0
        self.response = Response()
        self.outcome: Outcome | None = None
        self.detail = ""
        self.retried = False
        self.unsent = memoryview(b"")

    def fail(self, outcome: Outcome, detail: str = "") -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.detail = detail
