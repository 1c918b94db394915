"""Kafka in clouds: what their addresses demand of a client, by the name and the port (pure).

`kproxy explain` says it of a message, `kproxy lint` of a file. Each service has the address of its own documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServiceDemand:
    """The protocol and login that a service demands at one of its addresses."""

    service: str
    protocol: str
    """A value of `security.protocol`; empty if the service has no listener for Kafka clients at this port."""
    login: str = ""
    """The SASL mechanisms and what is peculiar to them."""
    refusal: str = ""
    """The meaning of a login that the service refuses, in whole sentences; "" if it has no peculiar one."""

    @property
    def uses_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def needs_login(self) -> bool:
        return self.protocol.startswith("SASL")


@dataclass(frozen=True, slots=True)
class ServiceListener:
    """The protocol and mechanisms of a service at one port, or at all ports."""

    protocols: tuple[str, ...]
    """The protocols that it accepts, the usual one first."""
    mechanisms: tuple[str, ...] = ()
    login: str = ""
    """The same for a person, with what is peculiar to the service."""
    refusal: str = ""
    """The meaning of a refused login, in whole sentences."""


@dataclass(frozen=True, slots=True)
class CloudService:
    """A service whose addresses can be recognised."""

    name: str
    hosts: re.Pattern[str]
    """The end of its hosts' names."""
    source: str
    """The address of its documentation."""
    listener: ServiceListener | None = None
    """The protocol at a port that is not in `ports`; None if it is not known."""
    ports: Mapping[int, ServiceListener] = field(default_factory=dict)
    only_port: int | None = None
    """Its only port, if it has one."""

    def listener_at(self, port: int) -> ServiceListener | None:
        """Return what the service speaks at a port; 0 is a port that is not known."""
        if self.only_port is not None and port not in (0, self.only_port):
            return None
        return self.ports.get(port, self.listener)


_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MSK_SCRAM = ServiceListener(("SASL_SSL",), ("SCRAM-SHA-512",), "`SCRAM-SHA-512`")
_MSK_IAM = ServiceListener(
    ("SASL_SSL",),
    ("AWS_MSK_IAM", "OAUTHBEARER"),
    "IAM: `AWS_MSK_IAM`, or `OAUTHBEARER` with a token of the AWS signer",
    "Amazon MSK refuses the credentials of AWS: they have expired or are not those that you mean (`aws sts "
    "get-caller-identity` shows whose they are), or their principal lacks `kafka-cluster:Connect` on this cluster. No user "
    "or password counts at this port.",
)
# SSL beside SASL_SSL is for clients with a certificate.
SERVICES = (
    CloudService(
        "Azure Event Hubs",
        re.compile(r"\.servicebus\.(windows\.net|usgovcloudapi\.net|chinacloudapi\.cn)$"),
        "https://learn.microsoft.com/azure/event-hubs/azure-event-hubs-apache-kafka-overview",
        ServiceListener(
            ("SASL_SSL",),
            ("PLAIN", "OAUTHBEARER"),
            "`PLAIN` with the user `$ConnectionString`, or `OAUTHBEARER`",
            "Azure Event Hubs refuses the connection string or the token: the user is the word `$ConnectionString` itself, in "
            "which a shell or Compose may take the `$` for a variable, and the password is the whole connection string of "
            "this namespace, from `Endpoint=` to its end.",
        ),
        only_port=9093,
    ),
    CloudService(
        "Confluent Cloud",
        re.compile(r"\.confluent\.cloud$"),
        "https://docs.confluent.io/cloud/current/client-apps/config-client.html",
        ServiceListener(
            ("SASL_SSL", "SSL"),
            ("PLAIN", "OAUTHBEARER"),
            "`PLAIN` with an API key of this cluster, or `OAUTHBEARER`",
            "Confluent Cloud refuses the API key or the token: user and password are the key and secret of this very cluster, "
            "and not of another cluster, of Schema Registry or of the cloud. A new key works after some minutes.",
        ),
    ),
    CloudService(
        "Amazon MSK",
        re.compile(r"\.kafka\.[a-z0-9-]{1,40}\.amazonaws\.com(?:\.cn)?$"),
        "https://docs.aws.amazon.com/msk/latest/developerguide/port-info.html",
        # 9194, 9196 and 9198 are for public access, the ports above 20000 for IPv6.
        ports={
            **dict.fromkeys((9092, 20092), ServiceListener(("PLAINTEXT",))),
            **dict.fromkeys((9094, 9194, 20094), ServiceListener(("SSL",))),
            **dict.fromkeys((9096, 9196, 20096), _MSK_SCRAM),
            **dict.fromkeys((9098, 9198, 20098), _MSK_IAM),
        },
    ),
    CloudService(
        "Amazon MSK Serverless",
        re.compile(r"\.kafka-serverless\.[a-z0-9-]{1,40}\.amazonaws\.com(?:\.cn)?$"),
        "https://docs.aws.amazon.com/msk/latest/developerguide/serverless.html",
        _MSK_IAM,
        only_port=9098,
    ),
    CloudService(
        "Aiven",
        re.compile(r"\.aivencloud\.com$"),
        "https://aiven.io/docs/products/kafka/concepts/auth-types",
        ServiceListener(
            ("SSL", "SASL_SSL"),
            ("PLAIN", *_SCRAM, "OAUTHBEARER"),
            "a client certificate; SASL has a port of its own",
        ),
    ),
    CloudService(
        "Redpanda Cloud",
        re.compile(r"\.cloud\.redpanda\.com$"),
        "https://docs.redpanda.com/redpanda-cloud/security/cloud-authentication/",
        ServiceListener(("SASL_SSL", "SSL"), (*_SCRAM, "OAUTHBEARER"), "`SCRAM-SHA-256` or `SCRAM-SHA-512`"),
    ),
    CloudService(
        "Google Managed Service for Apache Kafka",
        re.compile(r"\.managedkafka\..{1,200}\.cloud\.goog$"),
        "https://cloud.google.com/managed-service-for-apache-kafka/docs/authentication-kafka",
        ServiceListener(("SASL_SSL", "SSL"), ("OAUTHBEARER", "PLAIN"), "`OAUTHBEARER` or `PLAIN`"),
    ),
    CloudService(
        "OCI Streaming",
        re.compile(r"(?:^|\.)streaming\.[a-z0-9-]{1,40}\.oci\.oraclecloud\.com$"),
        "https://docs.oracle.com/iaas/Content/Streaming/Tasks/kafkacompatibility_topic-Configuration.htm",
        ServiceListener(("SASL_SSL",), ("PLAIN",), "`PLAIN`"),
        only_port=9092,
    ),
    CloudService(
        "IBM Event Streams",
        re.compile(r"\.eventstreams\.cloud\.ibm\.com$"),
        "https://cloud.ibm.com/docs/EventStreams?topic=EventStreams-security",
        ServiceListener(("SASL_SSL",), ("PLAIN", "OAUTHBEARER"), "`PLAIN` with the user `token`"),
    ),
    CloudService(
        "Upstash",
        re.compile(r"\.upstash\.io$"),
        "https://upstash.com/docs/kafka/howto/connectwithsasl",
        ServiceListener(("SASL_SSL",), _SCRAM, "`SCRAM-SHA-256` or `SCRAM-SHA-512`"),
        only_port=9092,
    ),
    CloudService(
        "CloudKarafka",
        re.compile(r"\.cloudkarafka\.com$"),
        "https://www.cloudkarafka.com/docs/",
        ServiceListener(("SASL_SSL",), _SCRAM, "`SCRAM-SHA-512`"),
        only_port=9094,
    ),
    CloudService(
        "DigitalOcean",
        re.compile(r"\.db\.ondigitalocean\.com$"),
        "https://docs.digitalocean.com/products/databases/kafka/how-to/connect/",
        ServiceListener(("SASL_SSL", "SSL"), ("PLAIN", *_SCRAM), "`SCRAM-SHA-256`, or a client certificate"),
    ),
)


def service_of(host: str) -> CloudService | None:
    """Return the service that has this host; None if it is of none that is known."""
    name = host.lower().rstrip(".")
    return next((service for service in SERVICES if service.hosts.search(name)), None)


def demand_of(host: str, port: int) -> ServiceDemand | None:
    """Return what the cloud service of this name demands at this port; None if it is not known."""
    service = service_of(host)
    listener = service.listener_at(port) if service is not None else None
    if service is None or listener is None:
        return None
    return ServiceDemand(service.name, listener.protocols[0], listener.login, listener.refusal)
