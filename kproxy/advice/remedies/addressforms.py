"""Faults of addresses that their own form shows."""

from __future__ import annotations

from kproxy.advice.remedies.remedy import parse_remedies

TABLE = parse_remedies("""
== short-name-advertised: A name without a domain cannot be resolved
The name has no dot. It may be the name of the machine on which the broker runs, the service name of a container, or a
typo. A broker advertises the name of its machine if `advertised.listeners` is not set. Only machines or containers of
its own network can resolve such a name.
Check: `kcat -b BOOTSTRAP -L` shows the advertised names. `getent hosts NAME` on the client's machine prints nothing
for this name.
Fix: Set `advertised.listeners` of the broker to a name that its clients can resolve. Or run kproxy beside the client,
and use kproxy as the client's bootstrap server. If it is a bootstrap server, correct the name.
any?> lookup …: no such host

== host-gateway: Docker on Linux does not define host.docker.internal
`host.docker.internal` leads from a container to its host. Docker Desktop defines it. Docker on Linux defines it only
for containers with an extra host, and the host itself does not know it at all.
Check: `docker exec CONTAINER getent hosts host.docker.internal` prints an address.
Fix: Add `extra_hosts: ["host.docker.internal:host-gateway"]` to the client's service in Compose, or
`--add-host host.docker.internal:host-gateway` to `docker run`. Clients on the host itself need another name: let the
broker advertise `localhost` on a listener for them.
any?> lookup host.docker.internal: no such host

== address-form: An address has a form that the client does not understand
The client expects HOST:PORT, and nothing else: no `PLAINTEXT://` or `http://` before it, no path behind it, no empty
host, and several addresses as one list. Java's client accepts a scheme and ignores it; most other clients take it for
a part of the name. If a broker announces an empty address, the partition has no leader yet.
Check: Compare the address in the message with HOST:PORT.
Fix: Write the addresses as `host-1:9092,host-2:9092`. The scheme belongs into `listeners` and `advertised.listeners`
of a broker, and the client's protocol into `security.protocol`.
any*> missing port in address
any*> too many colons in address
any*> dial tcp: missing address
any?> dial tcp: unknown port
ruby-kafka!> - http://…: Connection error
ruby-kafka!> - https://…: Connection error
librdkafka!> sasl_ssl:///bootstrap
librdkafka!> ssl:///bootstrap
librdkafka!> Connect to ipv4# failed: Connection refused
librdkafka!> Connect to ipv4# failed
any?> dial tcp: address …: invalid port
any*> invalid port … after host
any?> getaddrinfo ENOTFOUND undefined
any?> unexpected '[' in address
any?> missing ']' in address
any?> first path segment in URL cannot contain colon
any?> ERR_SOCKET_BAD_PORT
any?> Servname not supported for ai_socktype
java!> Invalid url in bootstrap.servers: …
librdkafka!> Broker name … parse error
java!> Invalid port in bootstrap.servers
""")
