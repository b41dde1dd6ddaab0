"""What the server's cache served of the prompts, and whether the workload accounts for it."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from runners.load.rows import MISSING, StageRows

#: Chance lets two prompts begin with the same word now and then.
_TOLERANCE = 0.01


@dataclass(frozen=True)
class CacheUse:
    """Of the measured requests that ended well; shares are of their prompt tokens, None where they are not known.

    offered_share      what an endless prefix cache could have served, because the workload itself repeats
    cached_share       what the server says its cache served
    unexplained_share  what it served beyond the chat template and the workload's own repetition
    clean              whether that is next to nothing; None where the server or the template's length is unknown
    """

    offered_share: float | None = None
    cached_share: float | None = None
    unexplained_share: float | None = None
    clean: bool | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def cache_use(rows: StageRows, template_tokens: float | None) -> CacheUse:
    """``template_tokens``: how long the chat template is, None where that is not known."""
    asked, cached = rows.ints("input_tokens"), rows.ints("cached_tokens")
    reusable = np.maximum(rows.ints("reusable_tokens"), 0)
    known = rows.good & (asked != MISSING)
    total = int(asked[known].sum())
    if not total:
        return CacheUse()
    offered = float(np.minimum(reusable, asked)[known].sum() / total)
    known &= cached != MISSING
    total = int(asked[known].sum())
    if not total:
        return CacheUse(offered)
    share = float(cached[known].sum() / total)
    if template_tokens is None:
        return CacheUse(offered, share)
    beyond = np.maximum(cached - reusable - np.ceil(template_tokens), 0)[known]
    unexplained = float(beyond.sum() / total)
    return CacheUse(offered, share, unexplained, unexplained <= _TOLERANCE)
