"""Ready-made studies, a module each, in the order of their numbers."""

from observatory.studies.ready_made.adapters import ADAPTERS
from observatory.studies.ready_made.base import ReadyMade, Short, Sketch, make
from observatory.studies.ready_made.batching import BATCHING
from observatory.studies.ready_made.cache_quantization import CACHE_QUANTIZATION
from observatory.studies.ready_made.continuous_batching import CONTINUOUS_BATCHING
from observatory.studies.ready_made.disaggregation import DISAGGREGATION
from observatory.studies.ready_made.interference import INTERFERENCE
from observatory.studies.ready_made.load_balancing import LOAD_BALANCING
from observatory.studies.ready_made.mixture import MIXTURE
from observatory.studies.ready_made.on_device import ON_DEVICE
from observatory.studies.ready_made.paged_cache import PAGED_CACHE
from observatory.studies.ready_made.prefix_caching import PREFIX_CACHING
from observatory.studies.ready_made.reasoning import REASONING
from observatory.studies.ready_made.routing import ROUTING
from observatory.studies.ready_made.scaling import SCALING
from observatory.studies.ready_made.smaller_model import SMALLER_MODEL
from observatory.studies.ready_made.speculation import SPECULATION
from observatory.studies.ready_made.speculation_vllm import SPECULATION_VLLM
from observatory.studies.ready_made.two_phases import TWO_PHASES
from observatory.studies.ready_made.weight_quantization import WEIGHT_QUANTIZATION
from observatory.studies.ready_made.weight_quantization_vllm import WEIGHT_QUANTIZATION_VLLM

__all__ = ["BY_SLUG", "READY_MADE", "ReadyMade", "Short", "Sketch", "make"]

READY_MADE: tuple[ReadyMade, ...] = (
    TWO_PHASES,
    BATCHING,
    CONTINUOUS_BATCHING,
    PAGED_CACHE,
    PREFIX_CACHING,
    INTERFERENCE,
    DISAGGREGATION,
    WEIGHT_QUANTIZATION,
    CACHE_QUANTIZATION,
    SPECULATION,
    SMALLER_MODEL,
    MIXTURE,
    SCALING,
    ROUTING,
    LOAD_BALANCING,
    ON_DEVICE,
    REASONING,
    WEIGHT_QUANTIZATION_VLLM,
    SPECULATION_VLLM,
    ADAPTERS,
)
BY_SLUG = {ready.slug: ready for ready in READY_MADE}
