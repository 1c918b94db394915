"""Kafka in clouds: what their addresses demand of a client, by the name and the port (pure).

Sources: the services' own documentation on connecting Kafka clients: Azure Event Hubs ("Use Azure Event Hubs from
Apache Kafka applications"), Confluent Cloud ("Connect to Confluent Cloud"), Amazon MSK ("Port information"), Aiven for
Apache Kafka, Redpanda Cloud, Google Managed Service for Apache Kafka, OCI Streaming, IBM Event Streams, Upstash,
CloudKarafka, DigitalOcean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceDemand:
    """What a service demands at one of its addresses."""

    service: str
    protocol: str
    """A value of `security.protocol`; empty if the service has no listener for Kafka clients at this port."""
    login: str = ""
    """The SASL mechanisms and what is peculiar to them."""

    @property
    def uses_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def needs_login(self) -> bool:
        return self.protocol.startswith("SASL")


_MSK = "Amazon MSK"
_MSK_PORTS = {
    port + offset: demand
    for offset in (0, 100)  # 9194, 9196 and 9198 are for public access
    for port, demand in {
        9092: ServiceDemand(_MSK, "PLAINTEXT"),
        9094: ServiceDemand(_MSK, "SSL"),
        9096: ServiceDemand(_MSK, "SASL_SSL", "`SCRAM-SHA-512`"),
        9098: ServiceDemand(_MSK, "SASL_SSL", "IAM: `AWS_MSK_IAM`, or `OAUTHBEARER` with a token of the AWS signer"),
    }.items()
    if port + offset != 9192
}
_EVENT_HUBS = ServiceDemand(
    "Azure Event Hubs", "SASL_SSL", "`PLAIN` with the user `$ConnectionString`, or `OAUTHBEARER`"
)
# The end of a name, the ports at which the demand holds (none: all ports), and the demand.
_SERVICES: tuple[tuple[str, frozenset[int], ServiceDemand], ...] = (
    (".servicebus.windows.net", frozenset({9093}), _EVENT_HUBS),
    (".servicebus.usgovcloudapi.net", frozenset({9093}), _EVENT_HUBS),
    (".servicebus.chinacloudapi.cn", frozenset({9093}), _EVENT_HUBS),
    (
        ".confluent.cloud",
        frozenset(),
        ServiceDemand("Confluent Cloud", "SASL_SSL", "`PLAIN` with an API key of this cluster, or `OAUTHBEARER`"),
    ),
    (
        ".cloud.redpanda.com",
        frozenset(),
        ServiceDemand("Redpanda Cloud", "SASL_SSL", "`SCRAM-SHA-256` or `SCRAM-SHA-512`"),
    ),
    (
        ".cloud.goog",
        frozenset({9092}),
        ServiceDemand("Google Managed Service for Apache Kafka", "SASL_SSL", "`OAUTHBEARER` or `PLAIN`"),
    ),
    (".oci.oraclecloud.com", frozenset({9092}), ServiceDemand("OCI Streaming", "SASL_SSL", "`PLAIN`")),
    (
        ".eventstreams.cloud.ibm.com",
        frozenset(),
        ServiceDemand("IBM Event Streams", "SASL_SSL", "`PLAIN` with the user `token`"),
    ),
    (
        ".upstash.io",
        frozenset({9092}),
        ServiceDemand("Upstash", "SASL_SSL", "`SCRAM-SHA-256` or `SCRAM-SHA-512`"),
    ),
    (".cloudkarafka.com", frozenset({9094}), ServiceDemand("CloudKarafka", "SASL_SSL", "`SCRAM-SHA-512`")),
    (
        ".aivencloud.com",
        frozenset(),
        ServiceDemand("Aiven", "SSL", "a client certificate; SASL has a port of its own"),
    ),
    (
        ".db.ondigitalocean.com",
        frozenset(),
        ServiceDemand("DigitalOcean", "SASL_SSL", "`SCRAM-SHA-256`, or a client certificate"),
    ),
)
_MSK_NAME = re.compile(r"\.kafka(?:-serverless)?\.[a-z0-9-]{1,40}\.amazonaws\.com(?:\.cn)?$")


def demand_of(host: str, port: int) -> ServiceDemand | None:
    """Return what the cloud service of this name demands at this port; None if it is not known."""
    name = host.lower().rstrip(".")
    if _MSK_NAME.search(name):
        return _MSK_PORTS.get(port)
    return next(
        (
            demand
            for suffix, ports, demand in _SERVICES
            if name.endswith(suffix) and (not ports or not port or port in ports)
        ),
        None,
    )
