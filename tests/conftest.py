"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Nothing is asserted about the clock: on a busy machine an example may take seconds, and making one as well.
settings.register_profile("callboard", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("callboard")
