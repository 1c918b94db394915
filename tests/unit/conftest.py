"""How many examples hypothesis tries: a few, always the same, by default, so that a change is what makes a test fail;
many, never the same, with HYPOTHESIS_PROFILE=thorough (`make test-matrix`).

With COVERAGE=1, which makes kproxy's code three times as slow, they are fewer."""

import os

from hypothesis import HealthCheck, settings

# A deadline would be an assertion on time; this machine may be busy.
settings.register_profile(
    "quick", max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=500, derandomize=False)
settings.register_profile("measured", settings.get_profile("quick"), max_examples=4)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "measured" if os.environ.get("COVERAGE") else "quick"))
