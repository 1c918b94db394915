"""The kproxies of a switch: where they are, and asking each of them, with a limit of time for every answer."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kproxy.base.address import Address
from kproxy.base.errors import AdminError, ConfigError
from kproxy.migrate.spec.switch_section import HTTPS, KproxySelection, SwitchSection
from kproxy.migrate.switch.kproxy_replies import ClusterReply, KproxyReply, read_command_reply
from kproxy.migrate.switch.kubernetes import addresses_of_pods
from kproxy.net.blocking import can_connect, resolve
from kproxy.proxy.admin import bearer
from kproxy.proxy.admin.client import AdminClient, tls_context
from kproxy.proxy.switching.asjson import PART
from kproxy.proxy.switching.participant import Command, CommandType
from kproxy.proxy.switching.parts import split_unit, unit_name

T = TypeVar("T")

SWITCH_PATH = "/switch"
# For one answer, in seconds. A hold lasts 25 at most.
REPLY_TIMEOUT = 3.0
# Between the name of a kproxy and that of a part of its cluster.
_PART_SEPARATOR = " "
# Asked at once. Each question takes a thread, and mostly waits.
_MAX_THREADS = 64


class MissingKproxy(AdminClient):
    """In the place of a kproxy that nobody finds: it answers nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(Address(name, 0))

    def get(self, path: str, query: Mapping[str, str] | None = None) -> object:
        raise AdminError(f"there is no kproxy {self.address.host} any more; --gone leaves it out")

    def post(self, path: str, value: object, also: Collection[int] = ()) -> object:
        return self.get(path)


@dataclass(frozen=True, slots=True)
class Kproxy:
    """`name`: how a person calls it. `cluster`: which of its clusters is meant, or which part of one."""

    name: str
    client: AdminClient
    cluster: str

    def read_reply(self) -> KproxyReply:
        """What it says of itself. Raises AdminError."""
        return KproxyReply.read(self.client.get(SWITCH_PATH), self.name)

    def read_state(self) -> ClusterReply:
        """Of its cluster. Raises AdminError."""
        found = self.read_reply().clusters.get(self.cluster)
        if found is None:
            raise AdminError(f"{self.name} has no cluster {self.cluster} that can be switched")
        return found

    def read_units(self) -> list[ClusterReply]:
        """Of its cluster, and of each part of it. Raises AdminError."""
        there = self.read_reply().clusters
        return [self.read_state(), *(one for name, one in there.items() if name != self.cluster == split_unit(name)[0])]

    def make_part(self, clients: Sequence[str]) -> ClusterReply:
        """Make the unit that is meant, a part with these clients. Raises Refusal and AdminError."""
        answer = self.client.post(
            SWITCH_PATH, {"cluster": self.cluster, "do": PART, "clients": list(clients)}, also=(400, 409)
        )
        return read_command_reply(answer, self.name)

    def for_part(self, part: str) -> Kproxy:
        """The same for a part of its cluster; its name says which."""
        return Kproxy(f"{self.name}{_PART_SEPARATOR}{part}", self.client, unit_name(self.cluster, part))

    def send(self, command: Command) -> ClusterReply:
        """The state of its cluster after this. Raises Refusal if it answers that it does not do that, and AdminError if
        it cannot be asked."""
        answer = self.client.post(SWITCH_PATH, {"cluster": self.cluster, **command_to_json(command)}, also=(400, 409))
        return read_command_reply(answer, self.name)


def command_to_json(command: Command) -> dict[str, Any]:
    """Of a POST, without what is not needed."""
    said: dict[str, Any] = {"switch": command.switch, "driver": command.driver, "do": command.type.value}
    if command.type is CommandType.HOLD:
        said |= {"to": command.to, "seconds": command.seconds}
        said |= {} if command.after is None else {"after": command.after}
    if command.force:
        said["force"] = True
    return said


def split_name(name: str) -> tuple[str, str]:
    """Of `Kproxy.of`: the kproxy's own name, and the part; "" if it is none's."""
    own, _, part = name.partition(_PART_SEPARATOR)
    return own, part


class KproxyFleet:
    """All of them, asked at once."""

    def __init__(self, kproxies: Sequence[Kproxy], pool: ThreadPoolExecutor | None = None) -> None:
        self.kproxies = tuple(kproxies)
        self._pool = pool or ThreadPoolExecutor(min(_MAX_THREADS, max(1, len(self.kproxies))), "kproxy switch")

    def subset(self, units: Sequence[Kproxy]) -> KproxyFleet:
        """These units of its kproxies, asked by its threads: it must be open as long."""
        return KproxyFleet(units, self._pool)

    def __enter__(self) -> KproxyFleet:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def request_all(
        self, ask: Callable[[Kproxy], T], of: Sequence[Kproxy] | None = None
    ) -> Iterator[tuple[Kproxy, T | AdminError]]:
        """What each of them answers, or why it does not."""

        def one(kproxy: Kproxy) -> T | AdminError:
            try:
                return ask(kproxy)
            except AdminError as error:
                return error

        asked = [(kproxy, self._pool.submit(one, kproxy)) for kproxy in (self.kproxies if of is None else of)]
        for kproxy, answer in asked:
            yield kproxy, answer.result()

    def submit(self, ask: Callable[[], None]) -> None:
        """Do this in a thread of the fleet's."""
        self._pool.submit(ask)


def open_fleet(switch: SwitchSection, seconds: float = REPLY_TIMEOUT) -> KproxyFleet:
    """Those that the file means. Raises ConfigError if there are none, or a file is no good."""
    token = _read_token(switch.token_file)
    made = []
    for name, address, host, https in _addresses(switch.kproxies):
        context = _tls_context(switch.ca) if https or switch.ca is not None else None
        made.append(
            Kproxy(name, AdminClient(address, token, seconds, context, switch.server_name or host), switch.cluster)
        )
    return KproxyFleet(made)


def _addresses(kproxies: KproxySelection) -> Iterator[tuple[str, Address, str, bool]]:
    """For each its name for people, where it is, the host in its certificate, and whether it is asked with HTTPS."""
    if kproxies.labels:
        for name, host in addresses_of_pods(kproxies):
            yield name, Address(host, kproxies.port), host, kproxies.https
        return
    for text in kproxies.addresses or (kproxies.dns,):
        https, named = text.startswith(HTTPS), Address.parse(text.removeprefix(HTTPS))
        found = _resolve(named)
        for address in found if kproxies.dns else found[:1]:
            yield text if not kproxies.dns else str(address), address, named.host, https


def _resolve(named: Address) -> list[Address]:
    """Its addresses, those that answer first: names are not resolved again while writes are held."""
    try:
        found = resolve(named.host, named.port)
    except OSError as error:
        raise ConfigError(
            f"switch.kproxies: {named.host} cannot be resolved: {error.strerror or error}; allowed: a name or an"
            " address of a kproxy's admin endpoint"
        ) from None
    if len(found) > 1:
        found.sort(key=lambda ip: not can_connect(ip, named.port, REPLY_TIMEOUT))
    return [Address(ip, named.port) for ip in found]


def _read_token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return bearer.read_file(file)
    except ConfigError as error:
        raise ConfigError(f"switch.token-file: {error}") from None


def _tls_context(ca: Path | None) -> ssl.SSLContext:
    try:
        return tls_context(ca)
    except ValueError as error:
        raise ConfigError(f"switch.ca: {ca}: {error}") from None
