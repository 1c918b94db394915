"""How many examples hypothesis tries: few by default, many with HYPOTHESIS_PROFILE=thorough."""

import os

from hypothesis import HealthCheck, settings

# A deadline would be an assertion on time; this machine may be busy.
settings.register_profile("quick", max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
