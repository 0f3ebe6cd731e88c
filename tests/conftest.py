"""Settings of all tests: hypothesis has no deadlines, and Ctrl-C works."""

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")

# A shell starts background jobs with SIGINT ignored, and processes that tests start inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
