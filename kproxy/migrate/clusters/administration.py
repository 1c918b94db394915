"""A connection for administration to a cluster: kafka-python's admin client, with kproxy's exceptions.

Requests are kafka-python's message classes: its admin client lacks some (quotas, share groups), and fails at the first
topic that the principal may not describe. There is no public way to send them, so this module, and no other, uses the
private `_manager` of that client: a new version of kafka-python may break it.
"""

from __future__ import annotations

from typing import Any

from kproxy.base.errors import UpstreamError, WireError
from kproxy.protocol.wire.api import ApiKey

# In milliseconds: until the first answer, and for one request.
_BOOTSTRAP, _REQUEST = 20_000, 40_000
# The ApiVersions request by which a client checks the node (KIP-1242), and the Kafka that has it since. The table of
# kafka-python ends with Kafka 4.3.
_NODE_CHECK_VERSION, _WITH_NODE_CHECK = 5, (4, 4)


class UnsupportedRequestError(Exception):
    """A request that the brokers do not support because they are too old."""


class Admin:
    """A connection to the cluster behind a bootstrap server. Raises UpstreamError if no broker replies."""

    def __init__(self, bootstrap: str) -> None:
        from kafka.admin import KafkaAdminClient  # slow, and `kproxy run` does not need it
        from kafka.errors import KafkaError

        self.bootstrap = bootstrap
        try:
            self.client = KafkaAdminClient(
                bootstrap_servers=bootstrap.split(","),
                client_id="kproxy-migrate",
                bootstrap_timeout_ms=_BOOTSTRAP,
                request_timeout_ms=_REQUEST,
            )
        except KafkaError as error:
            raise UpstreamError("other", f"{bootstrap}: no broker replied: {_message_of(error)}") from None

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def ask(self, request: Any, node: int | None = None) -> Any:
        """Send a request to a broker (to any broker if `node` is None) and return the response.

        Raises UnsupportedRequestError and UpstreamError.
        """
        from kafka.errors import IncompatibleBrokerVersion, KafkaError

        manager = self.client._manager
        try:
            return manager.run(manager.send, request, node)
        except IncompatibleBrokerVersion:
            raise UnsupportedRequestError(type(request).__name__.removesuffix("Request")) from None
        except KafkaError as error:
            name = type(request).__name__.removesuffix("Request")
            raise UpstreamError("other", f"{self.bootstrap}: no reply to {name}: {_message_of(error)}") from None

    def ask_controller(self, request: Any) -> Any:
        """Send a request to the controller and return the response.

        Without KRaft, only the controller applies changes.
        """
        from kafka.protocol.metadata import MetadataRequest

        controller = self.ask(MetadataRequest(topics=[])).controller_id
        return self.ask(request, controller if controller >= 0 else None)

    def api_version(self, request: Any) -> int:
        """Return the version of a kind of request that this client and the first broker that replied have in common."""
        return int(self.client._manager.broker_version_data.api_version(request))

    @property
    def version(self) -> tuple[int, ...]:
        """The lowest Kafka version that the brokers can have, judged by the API versions that they support."""
        inferred = tuple(int(part) for part in self.client._manager.broker_version)
        _, newest = (self.client._manager.broker_version_data.api_versions or {}).get(ApiKey.API_VERSIONS, (0, 0))
        return max(inferred, _WITH_NODE_CHECK) if newest >= _NODE_CHECK_VERSION else inferred

    def nodes(self) -> dict[int, str]:
        """Return the addresses at which this process reaches the brokers, by node id."""
        brokers = self.client._manager.cluster.brokers()
        return {int(broker.node_id): f"{broker.host}:{broker.port}" for broker in brokers}

    def cluster_id(self) -> str:
        """Return Kafka's id of the cluster."""
        from kafka.protocol.metadata import MetadataRequest

        answer = self.ask(MetadataRequest(topics=[], min_version=2))
        if not answer.cluster_id:
            raise WireError("protocol", f"{self.bootstrap} returned no cluster id; allowed: Kafka 0.10.1 or later")
        return str(answer.cluster_id)


def _message_of(error: Exception) -> str:
    return str(error) or type(error).__name__
