"""Settings of clusters whose brokers no test ends."""

from __future__ import annotations

# After four seconds without a heartbeat a broker of the development cluster counts as dead, so that one that is killed
# can soon come back. Beside much other work a live one is silent for as long, and then its partitions have no leader.
STEADY = {"broker.session.timeout.ms": "120000"}
