"""Explanations of errors from asyncssh and SSH servers, as one line that says what to do."""

from __future__ import annotations

import asyncssh

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.net.dial.sshfiles import SshServer

# Words in the server's message for an address that it cannot connect to: OpenSSH's are those of its C library.
_WORDS = (
    ("refused", "refused"),
    ("not known", "resolve"),
    ("resol", "resolve"),
    ("timed out", "timeout"),
    ("unreachable", "unreachable"),
    ("no route", "unreachable"),
)


def explain_login_failure(name: str, server: SshServer | None, error: Exception, host_key: str | None) -> ViaError:
    """Return the error for a failed login at the server `name`.

    `host_key` is the server's host key if it is not trusted.
    """
    message = " ".join(str(error).split())
    if server is None:
        return ViaError("ssh", f"{name}: ~/.ssh/config or /etc/ssh/ssh_config: {message}")
    if isinstance(error, TimeoutError):
        return ViaError("ssh", f"{name}: the SSH server did not finish the login")
    if isinstance(error, asyncssh.PermissionDenied):
        text = f"the server refuses {server.user}: it accepts no key of the agent or of ~/.ssh"
        return ViaError("ssh-auth", f"{name}: {text}; a key with a passphrase must be in the agent (ssh-add)")
    no_key_in_common = isinstance(error, asyncssh.KeyExchangeFailed) and "host key" in message
    if isinstance(error, asyncssh.HostKeyNotVerifiable) or no_key_in_common:
        return _explain_host_key(name, server, host_key, message)
    if isinstance(
        error, ConnectionError | asyncssh.ConnectionLost | asyncssh.ProtocolError | asyncssh.ProtocolNotSupported
    ):
        return ViaError("ssh", f"{name}: the server at this address is not an SSH server, or it hung up ({message})")
    return ViaError("ssh", f"{name}: SSH failed: {message}")


def _explain_host_key(name: str, server: SshServer, host_key: str | None, message: str) -> ViaError:
    key = f" ({host_key})" if host_key else ""
    if "revoked" in message:
        return ViaError("ssh-host-key", f"{name}: the host key of {server.known_as} is revoked in known_hosts")
    if not server.is_known:
        text = f"the host key of {server.known_as}{key} is unknown"
        return ViaError(
            "ssh-host-key", f"{name}: {text}: connect once with ssh and compare the key, or add it to known_hosts"
        )
    text = f"the host key of {server.known_as}{key} is not the one in known_hosts"
    return ViaError(
        "ssh-host-key",
        f"{name}: {text}: the connection may be intercepted; if the server has a new key: ssh-keygen -R",
    )


def explain_channel_failure(name: str, address: Address, error: Exception) -> UpstreamError:
    """Return the error for a channel that the server `name` refuses after a login."""
    message = " ".join(str(error).split())
    if not isinstance(error, asyncssh.ChannelOpenError):
        return ViaError("ssh", f"{name}: {message}")
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        text = f"{name} forbids forwarding to that address (AllowTcpForwarding, PermitOpen or permitopen on the server)"
        return UpstreamError("ssh-forbidden", f"{address}: {text}")
    reason = next((reason for words, reason in _WORDS if words in message.lower()), "other")
    return UpstreamError(reason, f"{address}: {name} cannot connect to it: {message}")
