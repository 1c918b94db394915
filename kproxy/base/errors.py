"""The errors that kproxy raises on purpose. The class says who must act.

    KproxyError
    ├── ConfigError     the user: a flag, an environment variable, a file
    ├── WireError       a client or a broker: bytes that are not Kafka's protocol, or not safe to pass
    ├── UpstreamError   the network: a name, an address or a broker that cannot be reached
    │   ├── NoSuchName  no name server knows the name
    │   ├── NotBegun    a command cannot begin: a cluster that it needs cannot be reached
    │   └── ViaError    a hop of `--via` failed: no address behind it can be reached
    └── AdminError      another kproxy: its admin endpoint cannot be reached, or refuses

Any other exception that escapes is a defect of kproxy.
"""

from __future__ import annotations

from kproxy.base.diagnostic import ERROR, Diagnostic
from kproxy.base.printable import one_line

# The text of an error may quote a peer.
_LONGEST = 1000
# Reasons of an UpstreamError that stay until a person changes something.
_LASTING = {
    *("tls-name", "tls-untrusted", "tls-client-certificate", "upstream-speaks-tls-alert"),
    *("ssh-host-key", "ssh-auth", "proxy-auth"),
}


class KproxyError(Exception):
    """The base of all errors; `str()` is one line that a user can read."""


class ConfigError(KproxyError):
    """One or more mistakes in flags, environment or file, all found at once.

    `problems` has one line for each mistake: where it is, what is wrong, what is allowed. `diagnostics` has the same.
    """

    def __init__(self, *mistakes: str | Diagnostic) -> None:
        self.diagnostics = [
            Diagnostic(ERROR, "", mistake) if isinstance(mistake, str) else mistake for mistake in mistakes
        ]
        self.problems = tuple(map(str, mistakes))
        super().__init__("; ".join(self.problems))


class _ReasonedError(KproxyError):
    """An error with a `reason`: a short fixed word, fit for a metric label; `str()` is the text for people."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        super().__init__(one_line(text, _LONGEST))


class WireError(_ReasonedError):
    """Bytes that cannot be Kafka's protocol, or a frame that must not be passed on."""


class UpstreamError(_ReasonedError):
    """A failure to reach an upstream address.

    Its reasons are resolve, refused, timeout, unreachable, loop, limit, proxy, proxy-auth, ssh, ssh-host-key, ssh-auth,
    ssh-forbidden, kubernetes, kubernetes-auth, kubernetes-forbidden, docker, forward-command, sasl, closed,
    wrong-cluster, wrong-node, unknown-node, other. The reasons of TLS begin with "tls". A server that is not a Kafka
    broker has the reason of a `WireError`.
    """

    @property
    def lasting(self) -> bool:
        """True if trying again does not help until a person changes something."""
        return self.reason in _LASTING


class NoSuchName(UpstreamError):
    """A name that does not exist, according to the name servers."""

    @property
    def lasting(self) -> bool:
        """True: a missing name is usually a mistake, so trying again does not help."""
        return True


class NotBegun(UpstreamError):
    """A command cannot begin, because a cluster that it needs cannot be reached: it has checked and changed nothing."""


class ViaError(UpstreamError):
    """A hop of `--via` failed, so no address behind it can be reached."""


class AdminError(KproxyError):
    """A failure of the admin endpoint of another kproxy: not reachable, or a refusal.

    `status` is the HTTP status, 0 without a response.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        self.status = status
        super().__init__(one_line(text, _LONGEST))
