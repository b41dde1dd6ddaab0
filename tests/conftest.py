"""What property tests draw and how they are judged."""

import os

from hypothesis import HealthCheck, settings

#: What comes out is judged, never how long it took: machines are noisy.
settings.register_profile(
    "observatory",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,
)
settings.load_profile("observatory")
