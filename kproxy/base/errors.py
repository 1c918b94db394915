"""Every error that kproxy raises on purpose. The name says whose fault it is.

    KproxyError
    ├── ConfigError     the user's: a flag, an environment variable, a file
    ├── WireError       a client's or a broker's: bytes that are not Kafka's protocol, or not safe to pass
    ├── UpstreamError   the network's: a name, an address or a broker that cannot be reached
    │   ├── NoSuchName  no name server knows the name
    │   └── ViaError    a hop of `--via` failed: no address behind it can be reached
    └── AdminError      another kproxy's: its admin endpoint cannot be reached, or refuses

Anything else that escapes is a defect of kproxy.
"""

from __future__ import annotations

from kproxy.base.printable import one_line

# The text of an error may repeat what a peer said.
_LONGEST = 1000
# Reasons of an UpstreamError that stay until a person changes something.
_LASTING = frozenset(
    (
        "tls-name", "tls-untrusted", "tls-client-certificate", "upstream-speaks-tls-alert",
        "ssh-host-key", "ssh-auth", "proxy-auth",
    )
)  # fmt: skip


class KproxyError(Exception):
    """Base of all errors; `str()` is one line that a user can read."""


class ConfigError(KproxyError):
    """One or more mistakes in flags, environment or file, all of them found at once.

    `problems` holds one line for each: where, what is wrong, what is allowed.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class WireError(KproxyError):
    """Bytes that cannot be Kafka's protocol, or a frame that must not be passed on.

    `reason` is a short fixed word, fit for a metric label; `str()` says it for people.
    """

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        super().__init__(one_line(text, _LONGEST))


class UpstreamError(KproxyError):
    """An upstream address could not be reached.

    `reason` is a short fixed word, fit for a metric label: resolve, refused, timeout, unreachable, loop, limit,
    proxy, proxy-auth, ssh, ssh-host-key, ssh-auth, ssh-forbidden, kubernetes, kubernetes-auth, kubernetes-forbidden,
    docker, sasl, closed, wrong-cluster, wrong-node, unknown-node, other; those of TLS begin with "tls", and what is no
    Kafka broker has a `WireError`'s.
    """

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        super().__init__(one_line(text, _LONGEST))

    @property
    def lasting(self) -> bool:
        """Whether trying again does not help before a person changes something."""
        return self.reason in _LASTING


class NoSuchName(UpstreamError):
    """The name servers have answered that there is no such name."""

    @property
    def lasting(self) -> bool:
        """Whether trying again does not help: a name that is missing is a mistake, as a rule."""
        return True


class ViaError(UpstreamError):
    """A hop of `--via` failed: whatever lies behind it cannot be reached either."""


class AdminError(KproxyError):
    """The admin endpoint of another kproxy could not be asked, or refused. `status` is HTTP's, 0 without an answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        self.status = status
        super().__init__(one_line(text, _LONGEST))
