"""Property tests judge what comes out, never how long it took: machines are noisy."""

from hypothesis import HealthCheck, settings

settings.register_profile("observatory", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("observatory")
