"""Settings for how long a broker may be silent before the controller fences it."""

from __future__ import annotations

# After four seconds without a heartbeat a broker of the development cluster counts as dead, so that one that is killed
# can soon come back. Beside much other work a live one is silent for as long, and then its partitions have no leader.
STEADY = {"broker.session.timeout.ms": "120000"}
"""For clusters whose brokers no test ends."""
# The controller registers a broker that was killed again when its session is over. A coordinator that comes back before
# may end a transaction that has timed out, and take the logs for deleted when the broker is registered: it writes no
# marker ("Couldn't find leader endpoint"), and the transaction stays open in these logs, or ends with the producer's
# next one. So the session must be shorter than transaction.timeout.ms, which is 10 s in Kafka Streams. 9 s are Kafka's
# default: after the 4 s of the development cluster, a broker beside much other work may count as dead.
RESTARTED = {"broker.session.timeout.ms": "9000"}
"""For clusters whose brokers a test kills and starts again."""
