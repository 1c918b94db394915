"""How long a broker may be silent before it counts as dead: settings of clusters that run beside much other work."""

from __future__ import annotations

# After four seconds without a heartbeat a broker of the development cluster counts as dead, so that one that is killed
# can soon come back. Beside much other work a live one is silent for as long, and then its partitions have no leader.
STEADY = {"broker.session.timeout.ms": "120000"}
"""Of clusters whose brokers no test ends."""
# The controller registers a broker that was killed again when its session is over. With STEADY it would come back after
# 120 s, when Java's producer gives up its records (delivery.timeout.ms) while a commit waits: such a transaction may be
# committed in part, without kproxy too.
RESTARTED = {"broker.session.timeout.ms": "20000"}
"""Of clusters whose brokers a test kills and starts again."""
