"""One `--via`: its URL and its parts. The URL may have a password, so no message here repeats it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from kproxy.base.address import Address

MASK = "***"
_SCHEMES = {
    "socks5": "socks5",
    "socks5h": "socks5",
    "http": "http",
    "https": "https",
    "ssh": "ssh",
    "kubernetes": "kubernetes",
    "k8s": "kubernetes",
    "docker": "docker",
    "podman": "docker",
}
_PLACEHOLDER = "[USER:PASSWORD@]"
PATTERN = rf"^\s*({'|'.join(_SCHEMES)})://\S+$"
ALLOWED = (
    f"socks5://{_PLACEHOLDER}HOST:PORT, http://… or https://… likewise, ssh://[USER@]HOST[:PORT],"
    " k8s://[CONTEXT/]NAMESPACE, docker://NETWORK"
)


def mask(text: str) -> str:
    """Hide the passwords of URLs up to the last @ of a word, since a password may contain one.

    The placeholder for a password in a list of allowed values stays.
    """
    return re.sub(rf"(://(?!{re.escape(_PLACEHOLDER)})[^:@/\s]*):\S*@", rf"\1:{MASK}@", text)


@dataclass(frozen=True, slots=True)
class Hop:
    """A proxy, an SSH server, a Kubernetes cluster or a container network on the way to the brokers.

    `port` None: the port of ~/.ssh/config, or 22. For Kubernetes, `host` is the namespace and `user` the context; for
    Docker and Podman, `host` is the network.
    """

    scheme: str
    host: str
    port: int | None
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str) -> Hop:
        """Read a URL. In user and password, %XX stands for a character that a URL cannot have."""
        name, _, rest = text.strip().partition("://")
        if _SCHEMES.get(name.lower()) == "kubernetes":
            return cls._in_kubernetes(rest)
        if _SCHEMES.get(name.lower()) == "docker":
            return cls._in_docker(rest)
        try:
            url = urlsplit(text.strip())
            port = url.port
        except ValueError:
            raise ValueError(f"the value (not shown) is not a URL; allowed: {ALLOWED}") from None
        scheme = _SCHEMES.get(url.scheme)
        if scheme is None or not url.netloc:
            raise ValueError(f"the value (not shown) has an unknown scheme or no host; allowed: {ALLOWED}")
        user = None if url.username is None else unquote(url.username)
        password = None if url.password is None else unquote(url.password)
        if url.path not in ("", "/") or url.query or url.fragment or not url.hostname:
            raise ValueError(
                "the value (not shown) must have a host and a port, and nothing after them; in passwords, write"
                f" / ? # @ , and % as %2F %3F %23 %40 %2C %25; allowed: {ALLOWED}"
            )
        if scheme == "ssh" and password is not None:
            raise ValueError(
                "kproxy does not use a password in ssh://, only keys and the agent; allowed: ssh://[USER@]HOST[:PORT]"
            )
        if scheme != "ssh" and not port:
            raise ValueError(f"the port is missing; allowed: {ALLOWED}")
        if scheme == "socks5" and user is not None and not _fits_socks(user, password):
            raise ValueError("SOCKS5 takes a user and a password, each of 1 to 255 ASCII characters")
        return cls(scheme, url.hostname, port, user, password)

    @classmethod
    def _in_kubernetes(cls, rest: str) -> Hop:
        # The names of contexts are free: cloud logins make them with : @ and / in them.
        context, _, namespace = rest.removesuffix("/").rpartition("/")
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace):
            raise ValueError(
                "the last part must be a namespace (lower-case letters, digits and -); allowed: k8s://[CONTEXT/]NAMESPACE"
            )
        return cls("kubernetes", namespace, None, unquote(context) or None)

    @classmethod
    def _in_docker(cls, rest: str) -> Hop:
        network = rest.removesuffix("/")
        if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}", network):
            raise ValueError(
                "the last part must be the name of a network (see 'docker network ls'); allowed: docker://NETWORK"
            )
        return cls("docker", network, None)

    @property
    def url(self) -> str:
        """The text that `parse` reads, password included."""
        return self._with(None if self.password is None else quote(self.password, safe=""))

    def __str__(self) -> str:
        return self._with(None if self.password is None else MASK)

    def _with(self, password: str | None) -> str:
        if self.scheme == "kubernetes":
            context = "" if self.user is None else f"{quote(self.user, safe=':/@')}/"
            return f"{self.scheme}://{context}{self.host}"
        user = "" if self.user is None else quote(self.user, safe="")
        user += "" if password is None else f":{password}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = host if self.port is None else str(Address(self.host, self.port))
        return f"{self.scheme}://{user}@{place}" if user else f"{self.scheme}://{place}"


def _fits_socks(user: str, password: str | None) -> bool:
    return all(part and part.isascii() and len(part) <= 255 for part in (user, password))
