"""Through a Kubernetes API server to its pods, as `kubectl port-forward` does; names are those of the cluster.

Each has a connection of its own to the API server, so one that is slow holds no other.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from urllib.parse import quote

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.base.printable import one_line
from kproxy.base.repeats import about
from kproxy.net.dial import kubenames
from kproxy.net.dial.connector import Connector, Deadline, HopSpec
from kproxy.net.dial.kubeapi import KubeApi
from kproxy.net.dial.kubeforward import PortForward, PortForwardError, PortForwardRelay, forward_over
from kproxy.net.dial.kubehttp import KubeStatusError
from kproxy.net.dial.kubenames import NameMeaning, PodPort, TargetNotFound
from kproxy.net.dial.steps import DialStepKind

log = logging.getLogger(__name__)

# The node says so at once if the pod does not take the connection, and nothing if it does. So long kproxy waits for its
# no, the first time that it connects to a port of a pod.
_REFUSES_WITHIN = 0.3


class Kubernetes:
    """One namespace of a cluster, and the others where a name says so."""

    def __init__(self, hop: HopSpec, before: Connector, tasks: asyncio.TaskGroup) -> None:
        self._name = f"--via {hop}"
        self._namespace = hop.host
        self._tasks = tasks
        self._api = KubeApi(self._name, hop.user, before, tasks)
        self._carrying: set[asyncio.Task[None]] = set()
        self._answered: set[PodPort] = set()

    async def connect(self, address: Address, limit: Deadline) -> socket.socket:
        """Forward to the pod that the address means. Raises UpstreamError."""
        with limit.step(DialStepKind.HOP, self._name):
            try:
                return await self._connected(address, limit)
            except TargetNotFound as error:
                raise UpstreamError(error.reason, f"{address}: {error} (through {self._name})") from None

    async def _connected(self, address: Address, limit: Deadline) -> socket.socket:
        meanings = kubenames.parse_host(address.host, self._namespace)
        if not meanings:
            raise TargetNotFound("resolve", f"'{address.host}' cannot be a name of a Service or a pod")
        missing: TargetNotFound | None = None
        for meant in meanings:
            try:
                place = await self._place(meant, address, limit)
                if place is not None:
                    return await self._forwarded(place, meant, address, limit)
            except TargetNotFound as error:
                if error.reason != "resolve":
                    raise
                missing = error
        raise missing or TargetNotFound("resolve", f"no Service and no pod is called so in namespace {self._namespace}")

    async def _place(self, meant: NameMeaning, address: Address, limit: Deadline) -> PodPort | None:
        """None if there is no such thing."""
        if meant.ip is not None:
            path = (
                f"{_api_path('', meant.namespace, 'pods')}?fieldSelector={quote(f'status.podIP={meant.ip}', safe='')}"
            )
            pod = kubenames.find_running_pod(await self._asked(path, "list", "pods", meant, address, limit))
            if pod is None:
                raise TargetNotFound("resolve", f"no pod that runs in namespace {meant.namespace} has this IP address")
            return PodPort(meant.namespace, pod, address.port)
        if meant.pod is not None:
            return PodPort(meant.namespace, meant.pod, address.port)
        assert meant.service is not None
        path = _api_path("", meant.namespace, "services", meant.service)
        service = await self._asked(path, "get", "services", meant, address, limit)
        if service is None:
            return None
        slices = await self._slices(meant, address, limit)
        return kubenames.choose_pod_port(meant, address.port, service, slices)

    async def _slices(self, meant: NameMeaning, address: Address, limit: Deadline) -> object:
        label = quote(f"kubernetes.io/service-name={meant.service}", safe="")
        path = f"{_api_path('discovery.k8s.io', meant.namespace, 'endpointslices')}?labelSelector={label}"
        return await self._asked(path, "list", "endpointslices.discovery.k8s.io", meant, address, limit)

    async def _asked(
        self, path: str, verb: str, resource: str, meant: NameMeaning, address: Address, limit: Deadline
    ) -> object | None:
        """The answer, None if there is no such object."""
        try:
            found: object = await self._api.get(path, limit)
        except KubeStatusError as error:
            if error.status == 404:
                return None
            raise self._explained(error, verb, resource, meant.namespace, address) from None
        return found

    async def _forwarded(self, place: PodPort, meant: NameMeaning, address: Address, limit: Deadline) -> socket.socket:
        try:
            opened = await self._opened(place, address, limit)
        except TargetNotFound:
            # Its name in DNS may be another than its own (spec.hostname).
            if meant.pod is None or meant.service is None:
                raise
            pod = kubenames.find_pod_by_hostname(meant.pod, await self._slices(meant, address, limit))
            if pod is None or pod == place.pod:
                raise
            place = PodPort(place.namespace, pod, place.port)
            opened = await self._opened(place, address, limit)
        try:
            early = await self._begun(opened, place, address, limit)
        except BaseException:
            opened.close()
            raise
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        task = self._tasks.create_task(self._carry(PortForwardRelay(opened, near, early), place))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        return far

    async def _opened(self, place: PodPort, address: Address, limit: Deadline) -> PortForward:
        path = f"{_api_path('', place.namespace, 'pods', place.pod)}/portforward?ports={place.port}"
        try:
            return forward_over(await self._api.open_forward(path, limit), place.port)
        except KubeStatusError as error:
            if error.status == 404:
                text = f"there is no pod {place.pod} in namespace {place.namespace} ({error})"
                raise TargetNotFound("resolve", text) from None
            raise self._explained(error, "get,create", "pods/portforward", place.namespace, address) from None

    async def _begun(self, opened: PortForward, place: PodPort, address: Address, limit: Deadline) -> bytes | None:
        """Wait until the pod has the connection. Returns what `receive` gave of it already."""
        early: bytes | None = None
        try:
            async with limit.timeout():
                await opened.begin()
            if place in self._answered:
                return None
            async with asyncio.timeout(min(_REFUSES_WITHIN, limit.left)):
                while not early:  # the end of what it says may come before the reason for it
                    early = await opened.receive()
                    if early is None:
                        raise ConnectionError("it was closed")
        except TimeoutError:
            if limit.left:
                return early
            text = f"no answer from the node of pod {place.pod} within {limit.seconds:g} s (through {self._name})"
            raise UpstreamError("timeout", f"{address}: {text}") from None
        except (OSError, ValueError) as error:
            text = f"{self._name} ended the port-forward to pod {place.pod}: {one_line(str(error), 200)}"
            raise UpstreamError("kubernetes", f"{address}: {text}") from None
        except PortForwardError as complaint:
            said = one_line(str(complaint), 300)
            if "refused" in said.lower():
                text = f"nothing listens on port {place.port} in pod {place.pod}, or it is not ready yet ({said})"
                raise UpstreamError("refused", f"{address}: {text}") from None
            text = f"the port-forward to pod {place.pod} fails: {said}"
            raise UpstreamError("kubernetes", f"{address}: {text}") from None
        return early

    async def _carry(self, carriage: PortForwardRelay, place: PodPort) -> None:
        try:
            await carriage.run(lambda: self._answered.add(place))
        except* PortForwardError as complaints:
            self._answered.discard(place)
            said = one_line(str(complaints.exceptions[0]), 300)
            text = "%s: the port-forward to pod %s ends: %s"
            log.warning(text, self._name, place.pod, said, extra=about(self._name, place.pod))
        except* (OSError, ValueError) as errors:
            log.debug("%s: the connection to pod %s ended: %s", self._name, place.pod, errors.exceptions[0])

    def _explained(
        self, error: KubeStatusError, verbs: str, resource: str, namespace: str, address: Address
    ) -> UpstreamError:
        if error.status == 403:
            role = f"kubectl -n {namespace} create role kproxy --verb={verbs} --resource={resource}"
            text = f"forbidden: {error}; this role would allow it, with a rolebinding: {role}"
            return UpstreamError("kubernetes-forbidden", f"{address}: {text} (through {self._name})")
        if error.status in (400, 409):  # "pod kafka-0 does not have a host assigned"
            return UpstreamError("unreachable", f"{address}: the pod is not ready: {error} (through {self._name})")
        if error.status == 404:
            return UpstreamError("resolve", f"{address}: {error} (through {self._name})")
        text = f"the API server answers with HTTP {error.status}: {error}"
        if error.status in (429, 503):
            return ViaError("kubernetes", f"{self._name}: {text}")
        return UpstreamError("kubernetes", f"{address}: {text} (through {self._name})")

    async def close(self) -> None:
        """End all connections."""
        await self._api.close()
        for task in list(self._carrying):
            task.cancel()
        if self._carrying:
            await asyncio.wait(list(self._carrying))


def _api_path(group: str, namespace: str, resource: str, name: str = "") -> str:
    top = f"/apis/{group}/v1" if group else "/api/v1"
    path = f"{top}/namespaces/{quote(namespace, safe='')}/{resource}"
    return f"{path}/{quote(name, safe='')}" if name else path
