"""The engines whose metrics pages are understood, one module each."""

from runners.server.engines.base import EngineMetrics, keys_of
from runners.server.engines.llamacpp import LLAMACPP
from runners.server.engines.sglang import SGLANG
from runners.server.engines.tgi import TGI
from runners.server.engines.vllm import VLLM

ENGINES: tuple[EngineMetrics, ...] = (VLLM, SGLANG, TGI, LLAMACPP)

__all__ = ["ENGINES", "EngineMetrics", "engine_of", "keys_of"]


def engine_of(page: str) -> EngineMetrics | None:
    """The engine that most lines of ``page`` belong to; None when it has no line of a known one."""
    lines = page.split("\n")
    counts = {engine.prefix: sum(line.startswith(engine.prefix) for line in lines) for engine in ENGINES}
    best = max(ENGINES, key=lambda engine: counts[engine.prefix])
    return best if counts[best.prefix] else None
