"""Token APIs that charge: usage in classes that do not overlap, what it costs, dated list prices, who is paid.

What cannot be known is None beside a reason; ``Impossible`` says which input contradicts and what to change.
"""


class Impossible(ValueError):
    """Inputs that have no account."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem} {fix}")
        self.problem = problem
        self.fix = fix
