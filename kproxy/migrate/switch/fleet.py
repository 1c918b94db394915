"""The kproxies of a switch: their addresses, and concurrent requests with a time limit for every reply."""

from __future__ import annotations

import asyncio
import json
import math
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import h11

from kproxy.base.address import Address
from kproxy.base.errors import AdminError, ConfigError
from kproxy.base.printable import one_line
from kproxy.migrate.spec.switch_section import HTTPS, KproxySelection, SwitchSection
from kproxy.migrate.switch.kproxy_replies import ClusterReply, CommandRefused, KproxyReply, read_command_reply
from kproxy.net.blocking import can_connect, resolve
from kproxy.net.dial.kubeconfig import BadKubeconfig, KubeServer, read_kube_server
from kproxy.net.dial.kubeconfig import tls_context as kubernetes_tls
from kproxy.net.dial.kubehttp import KubeHttp, KubeStatusError
from kproxy.net.dial.kubelogin import KubeLogin
from kproxy.proxy.admin import bearer
from kproxy.proxy.admin.client import AdminClient, tls_context
from kproxy.proxy.switching.asjson import JOIN, PART
from kproxy.proxy.switching.participant import Command, CommandType
from kproxy.proxy.switching.parts import split_unit, unit_name
from kproxy.proxy.switching.userchecks import UserCheck, UserCheckRequest, parse_reply

T = TypeVar("T")

SWITCH_PATH = "/switch"
LOGINS_PATH = "/switch/logins"
# For one answer, in seconds. A hold lasts 25 at most.
REPLY_TIMEOUT = 3.0
# A kproxy gives up after 50.
_LOGINS_TIMEOUT = 60.0
_KUBERNETES_TIMEOUT = 10.0
# Between the name of a kproxy and that of a part of its cluster.
_PART_SEPARATOR = " "
# Asked at once. Each question takes a thread, and mostly waits.
_MAX_THREADS = 64


class MissingKproxy(AdminClient):
    """The client of a kproxy that was not found: every request fails."""

    def __init__(self, name: str) -> None:
        super().__init__(Address(name, 0))

    def get(self, path: str, query: Mapping[str, str] | None = None) -> object:
        raise AdminError(f"kproxy {self.address.host} no longer exists; --lost leaves it out")

    def post(self, path: str, value: object, also: Collection[int] = (), seconds: float | None = None) -> object:
        return self.get(path)


@dataclass(frozen=True, slots=True)
class Kproxy:
    """A kproxy, and the cluster or part of it that is meant."""

    name: str
    """The name for people: the address, or the name of the pod."""
    client: AdminClient
    cluster: str
    """The cluster, or the unit of a part of one."""

    def read_reply(self) -> KproxyReply:
        """Return its reply about all clusters. Raises AdminError."""
        return KproxyReply.read(self.client.get(SWITCH_PATH), self.name)

    def read_state(self) -> ClusterReply:
        """Return the state of its cluster. Raises AdminError."""
        cluster = self.read_reply().clusters.get(self.cluster)
        if cluster is None:
            raise AdminError(f"{self.name} has no cluster {self.cluster} that can be switched")
        return cluster

    def read_units(self) -> list[ClusterReply]:
        """Return the states of its cluster and of each part of it. Raises AdminError."""
        clusters = self.read_reply().clusters
        return [
            self.read_state(),
            *(cluster for name, cluster in clusters.items() if name != self.cluster == split_unit(name)[0]),
        ]

    def make_part(self, clients: Sequence[str], *, anew: bool = False) -> ClusterReply:
        """Create the part that is meant, with these clients. Raises CommandRefused and AdminError.

        `anew`: it may have other clients from before, if it is routed as all others are.
        """
        command = {"cluster": self.cluster, "do": PART, "clients": list(clients)}
        try:
            return read_command_reply(self.client.post(SWITCH_PATH, command, also=(400, 409)), self.name)
        except CommandRefused:
            if not anew:
                raise
        join = {"cluster": self.cluster, "do": JOIN}
        read_command_reply(self.client.post(SWITCH_PATH, join, also=(400, 409)), self.name)
        return read_command_reply(self.client.post(SWITCH_PATH, command, also=(400, 409)), self.name)

    def for_part(self, part: str) -> Kproxy:
        """Return the same kproxy for a part of its cluster; the name contains the part."""
        return Kproxy(f"{self.name}{_PART_SEPARATOR}{part}", self.client, unit_name(self.cluster, part))

    def check_users(self, request: UserCheckRequest) -> dict[str, UserCheck]:
        """Let it log in for users, and return the results. Raises AdminError."""
        answer = self.client.post(LOGINS_PATH, request.to_json(), also=(400, 409), seconds=_LOGINS_TIMEOUT)
        try:
            return parse_reply(answer, request)
        except ValueError as error:
            why = f"refuses: {error}" if str(error) else f"returned no valid reply at {LOGINS_PATH}"
            raise AdminError(f"{self.name} {why}") from None

    def send(self, command: Command) -> ClusterReply:
        """Send a command, and return the state of the cluster after it.

        Raises CommandRefused if kproxy refuses the command, and AdminError if kproxy cannot be reached.
        """
        answer = self.client.post(SWITCH_PATH, {"cluster": self.cluster, **command_to_json(command)}, also=(400, 409))
        return read_command_reply(answer, self.name)


def command_to_json(command: Command) -> dict[str, Any]:
    """Return the body of a POST, without unneeded fields."""
    fields: dict[str, Any] = {"switch": command.switch, "driver": command.driver, "do": command.type.value}
    if command.type is CommandType.HOLD:
        fields |= {"to": command.to, "seconds": command.seconds}
        fields |= {} if command.after is None else {"after": command.after}
    if command.force:
        fields["force"] = True
    return fields


def split_name(name: str) -> tuple[str, str]:
    """Split a name of `Kproxy.for_part` into the kproxy's own name and the part; "" if there is no part."""
    own, _, part = name.partition(_PART_SEPARATOR)
    return own, part


class KproxyFleet:
    """All kproxies of a switch; requests to them run concurrently."""

    def __init__(self, kproxies: Sequence[Kproxy], pool: ThreadPoolExecutor | None = None) -> None:
        self.kproxies = tuple(kproxies)
        self._pool = pool or ThreadPoolExecutor(min(_MAX_THREADS, max(1, len(self.kproxies))), "kproxy switch")

    def subset(self, units: Sequence[Kproxy]) -> KproxyFleet:
        """Return a fleet of these units that uses the threads of this one, which must stay open as long."""
        return KproxyFleet(units, self._pool)

    def __enter__(self) -> KproxyFleet:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def request_all(self, ask: Callable[[Kproxy], T]) -> Iterator[tuple[Kproxy, T | AdminError]]:
        """Yield the result of `ask` for each kproxy, or the error."""

        def request(kproxy: Kproxy) -> T | AdminError:
            try:
                return ask(kproxy)
            except AdminError as error:
                return error

        futures = [self._pool.submit(request, kproxy) for kproxy in self.kproxies]
        for kproxy, answer in zip(self.kproxies, futures, strict=True):
            yield kproxy, answer.result()

    def submit(self, ask: Callable[[], None]) -> None:
        """Run a function in a thread of the fleet's pool."""
        self._pool.submit(ask)


def open_fleet(switch: SwitchSection, seconds: float = REPLY_TIMEOUT) -> KproxyFleet:
    """Return the fleet that the file describes. Raises ConfigError if it is empty, or a file cannot be used."""
    token = _read_token(switch.token_file)
    kproxies = []
    for name, address, host, https in _addresses(switch.kproxies):
        context = _tls_context(switch.ca) if https or switch.ca is not None else None
        kproxies.append(
            Kproxy(name, AdminClient(address, token, seconds, context, switch.server_name or host), switch.cluster)
        )
    return KproxyFleet(kproxies)


def _addresses(kproxies: KproxySelection) -> Iterator[tuple[str, Address, str, bool]]:
    """Yield for each kproxy its name for people, address, host of its certificate, and whether it uses HTTPS."""
    if kproxies.kubernetes:
        for name, host in _addresses_of_pods(kproxies):
            yield name, Address(host, kproxies.port), host, kproxies.https
        return
    for text in kproxies.addresses or (kproxies.dns,):
        https, named = text.startswith(HTTPS), Address.parse(text.removeprefix(HTTPS))
        addresses = _resolve(named)
        for address in addresses if kproxies.dns else addresses[:1]:
            yield text if not kproxies.dns else str(address), address, named.host, https


def _resolve(named: Address) -> list[Address]:
    """Return the addresses of a name, those that accept connections first.

    Names are not resolved again while writes are held.
    """
    try:
        ips = resolve(named.host, named.port)
    except OSError as error:
        raise ConfigError(
            f"switch.kproxies: {named.host} cannot be resolved: {error.strerror or error}; allowed: a name or an"
            " address of a kproxy's admin endpoint"
        ) from None
    if len(ips) > 1:
        ips.sort(key=lambda ip: not can_connect(ip, named.port, REPLY_TIMEOUT))
    return [Address(ip, named.port) for ip in ips]


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


async def _request_json(server: KubeServer, path: str) -> object:
    login = KubeLogin(
        server, kubernetes_tls(server, server.pems) if server.tls else None, server.authorization, math.inf
    )
    host, port = server.address.host, server.address.port
    async with asyncio.timeout(_KUBERNETES_TIMEOUT):
        reader, writer = await asyncio.open_connection(host, port, ssl=login.tls, server_hostname=login.tls_name)
        try:
            return json.loads(await KubeHttp(reader, writer, login).get(path))
        finally:
            writer.transport.abort()


def _addresses_of_pods(kproxies: KproxySelection) -> list[tuple[str, str]]:
    """Return the name and IP address of each running pod with these labels. Raises ConfigError.

    The kubeconfig has the server and the credentials. Programs that make tokens (`exec`) are not run. In a pod without
    a kubeconfig, its service account is used.
    """
    try:
        server = read_kube_server(None, kproxies.kubeconfig)
        _check_server(server)
        namespace = kproxies.namespace or server.namespace
        path = (
            f"/api/v1/namespaces/{quote(namespace, safe='')}/pods?{urlencode({'labelSelector': kproxies.kubernetes})}"
        )
        addresses = list(_running_pods(asyncio.run(_request_json(server, path))))
    except BadKubeconfig as error:
        raise ConfigError(f"switch.kproxies: {error}") from None
    except KubeStatusError as error:
        advice = "; allowed: a user that may list pods" if error.status in (401, 403) else ""
        text = f"Kubernetes at {server.url} answers with HTTP {error.status}{advice}"
        raise ConfigError(f"switch.kproxies: {text}") from None
    except (OSError, EOFError, h11.RemoteProtocolError) as error:
        text = one_line(getattr(error, "strerror", None) or str(error) or type(error).__name__, 300)
        raise ConfigError(f"switch.kproxies: no answer from Kubernetes at {server.url}: {text}") from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise ConfigError(f"switch.kproxies: the server at {server.url} does not answer as Kubernetes does") from None
    if not addresses:
        raise ConfigError(f"switch.kproxies: namespace {namespace} has no pod with labels {kproxies.kubernetes}")
    return sorted(addresses)


def _check_server(server: KubeServer) -> None:
    """Raise BadKubeconfig if the context needs what kproxy does not do here."""
    if server.plugin is not None:
        raise BadKubeconfig(
            f"context '{server.context}' runs a program to log in, which kproxy does not do here: give"
            " the pods' addresses as a list, or a kubeconfig with a token (kubectl create token)"
        )
    if server.proxy is not None:
        raise BadKubeconfig(
            f"context '{server.context}' has a proxy-url, which kproxy does not use here: give the pods' addresses as"
            " a list"
        )


def _running_pods(answer: Any) -> Iterator[tuple[str, str]]:
    for pod in answer["items"]:
        status = pod.get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            continue
        name = one_line(str(pod.get("metadata", {}).get("name", "?")), 253)
        if status.get("phase") != "Running" or not status.get("podIP"):
            # It may start in a moment, and would then serve clients whose writes no kproxy holds.
            raise ConfigError(f"switch.kproxies: pod {name} does not run yet: wait until all pods run, then try again")
        yield name, str(status["podIP"])
