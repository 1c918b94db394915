"""Connecting through a Kubernetes API server to its pods, as `kubectl port-forward` does, by the cluster's names.

Each connection has a connection of its own to the API server, so a slow one delays no other.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from urllib.parse import quote

from kproxy.base.address import Address
from kproxy.base.errors import UpstreamError, ViaError
from kproxy.base.messages.hops import KUBERNETES_FORBIDDEN
from kproxy.base.printable import one_line
from kproxy.base.repeats import about
from kproxy.net.dial import kubenames
from kproxy.net.dial.connector import Connector, Deadline, DialStepKind, HopSpec
from kproxy.net.dial.kubeapi import KubeApi
from kproxy.net.dial.kubeforward import KubeForwardError, KubeForwardRelay, KubePortForward, forward_over
from kproxy.net.dial.kubehttp import KubeStatusError
from kproxy.net.dial.kubenames import NameMeaning, PodPort, TargetNotFound

log = logging.getLogger(__name__)

# The node sends an error at once if the pod refuses the connection, and nothing if it accepts it. kproxy waits this
# time for the error, in seconds, the first time that it connects to a port of a pod.
_REFUSES_WITHIN = 0.3


class Kubernetes:
    """One namespace of a cluster, and the others where a name contains them."""

    def __init__(self, hop: HopSpec, previous: Connector, tasks: asyncio.TaskGroup) -> None:
        self._name = f"--via {hop}"
        self._namespace = hop.host
        self._tasks = tasks
        self._api = KubeApi(self._name, hop.user, previous, tasks)
        self._relay_tasks: set[asyncio.Task[None]] = set()
        self._responsive: set[PodPort] = set()

    async def connect(self, address: Address, deadline: Deadline) -> socket.socket:
        """Forward to the pod that the address names. Raises UpstreamError."""
        with deadline.step(DialStepKind.HOP, self._name):
            try:
                return await self._connect(address, deadline)
            except TargetNotFound as error:
                raise UpstreamError(error.reason, f"{address}: {error} (through {self._name})") from None

    async def _connect(self, address: Address, deadline: Deadline) -> socket.socket:
        meanings = kubenames.parse_host(address.host, self._namespace)
        if not meanings:
            raise TargetNotFound("resolve", f"'{address.host}' cannot be a name of a Service or a pod")
        missing: TargetNotFound | None = None
        for meaning in meanings:
            try:
                pod_port = await self._find_pod_port(meaning, address, deadline)
                if pod_port is not None:
                    return await self._forward(pod_port, meaning, address, deadline)
            except TargetNotFound as error:
                if error.reason != "resolve":
                    raise
                missing = error
        raise missing or TargetNotFound(
            "resolve", f"no Service or pod of this name exists in namespace {self._namespace}"
        )

    async def _find_pod_port(self, meaning: NameMeaning, address: Address, deadline: Deadline) -> PodPort | None:
        """Return the port of the pod that the name means; None if such a service does not exist."""
        if meaning.ip is not None:
            selector = quote(f"status.podIP={meaning.ip}", safe="")
            path = f"{_api_path('', meaning.namespace, 'pods')}?fieldSelector={selector}"
            pod = kubenames.find_running_pod(await self._get(path, "pods", meaning, address, deadline))
            if pod is None:
                raise TargetNotFound(
                    "resolve", f"no pod that runs in namespace {meaning.namespace} has this IP address"
                )
            return PodPort(meaning.namespace, pod, address.port)
        if meaning.pod is not None:
            return PodPort(meaning.namespace, meaning.pod, address.port)
        assert meaning.service is not None
        path = _api_path("", meaning.namespace, "services", meaning.service)
        service = await self._get(path, "services", meaning, address, deadline)
        if service is None:
            return None
        slices = await self._slices(meaning, address, deadline)
        return kubenames.choose_pod_port(meaning, address.port, service, slices)

    async def _slices(self, meaning: NameMeaning, address: Address, deadline: Deadline) -> object:
        label = quote(f"kubernetes.io/service-name={meaning.service}", safe="")
        path = f"{_api_path('discovery.k8s.io', meaning.namespace, 'endpointslices')}?labelSelector={label}"
        return await self._get(path, "endpointslices.discovery.k8s.io", meaning, address, deadline)

    async def _get(
        self, path: str, resource: str, meaning: NameMeaning, address: Address, deadline: Deadline
    ) -> object | None:
        """Return a document of the API; None if the object does not exist."""
        try:
            document: object = await self._api.get(path, deadline)
        except KubeStatusError as error:
            if error.status == 404:
                return None
            verb = "list" if "?" in path else "get"  # the right in Kubernetes' RBAC
            raise self._explain(error, verb, resource, meaning.namespace, address) from None
        return document

    async def _forward(
        self, pod_port: PodPort, meaning: NameMeaning, address: Address, deadline: Deadline
    ) -> socket.socket:
        try:
            forward = await self._open(pod_port, address, deadline)
        except TargetNotFound:
            # The pod's name in DNS may differ from its own (spec.hostname).
            if meaning.pod is None or meaning.service is None:
                raise
            pod = kubenames.find_pod_by_hostname(meaning.pod, await self._slices(meaning, address, deadline))
            if pod is None or pod == pod_port.pod:
                raise
            pod_port = PodPort(pod_port.namespace, pod, pod_port.port)
            forward = await self._open(pod_port, address, deadline)
        try:
            early = await self._wait_until_accepted(forward, pod_port, address, deadline)
        except BaseException:
            forward.close()
            raise
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        task = self._tasks.create_task(self._relay(KubeForwardRelay(forward, near, early), pod_port))
        self._relay_tasks.add(task)
        task.add_done_callback(self._relay_tasks.discard)
        return far

    async def _open(self, pod_port: PodPort, address: Address, deadline: Deadline) -> KubePortForward:
        path = f"{_api_path('', pod_port.namespace, 'pods', pod_port.pod)}/portforward?ports={pod_port.port}"
        try:
            return forward_over(await self._api.open_forward(path, deadline), pod_port.port)
        except KubeStatusError as error:
            if error.status == 404:
                text = f"there is no pod {pod_port.pod} in namespace {pod_port.namespace} ({error})"
                raise TargetNotFound("resolve", text) from None
            raise self._explain(error, "get,create", "pods/portforward", pod_port.namespace, address) from None

    async def _wait_until_accepted(
        self, forward: KubePortForward, pod_port: PodPort, address: Address, deadline: Deadline
    ) -> bytes | None:
        """Wait until the pod has the connection. Return the bytes that it has sent meanwhile."""
        early: bytes | None = None
        try:
            async with deadline.timeout():
                await forward.wait_until_accepted()
            if pod_port in self._responsive:
                return None
            async with asyncio.timeout(min(_REFUSES_WITHIN, deadline.remaining)):
                while not early:  # the end of the data may arrive before the error
                    early = await forward.receive()
                    if early is None:
                        raise ConnectionError("it was closed")
        except TimeoutError:
            if deadline.remaining:
                return early
            text = f"no answer from the node of pod {pod_port.pod} within {deadline.seconds:g} s (through {self._name})"
            raise UpstreamError("timeout", f"{address}: {text}") from None
        except (OSError, ValueError) as error:
            text = f"{self._name} ended the port-forward to pod {pod_port.pod}: {one_line(str(error), 200)}"
            raise UpstreamError("kubernetes", f"{address}: {text}") from None
        except KubeForwardError as complaint:
            message = one_line(str(complaint), 300)
            if "refused" in message.lower():
                text = (
                    f"nothing listens on port {pod_port.port} in pod {pod_port.pod}, or it is not ready yet ({message})"
                )
                raise UpstreamError("refused", f"{address}: {text}") from None
            text = f"the port-forward to pod {pod_port.pod} fails: {message}"
            raise UpstreamError("kubernetes", f"{address}: {text}") from None
        return early

    async def _relay(self, relay: KubeForwardRelay, pod_port: PodPort) -> None:
        try:
            await relay.run(lambda: self._responsive.add(pod_port))
        except* KubeForwardError as complaints:
            self._responsive.discard(pod_port)
            message = one_line(str(complaints.exceptions[0]), 300)
            text = "%s: the port-forward to pod %s ends: %s"
            log.warning(text, self._name, pod_port.pod, message, extra=about(self._name, pod_port.pod))
        except* (OSError, ValueError) as errors:
            log.debug("%s: the connection to pod %s ended: %s", self._name, pod_port.pod, errors.exceptions[0])

    def _explain(
        self, error: KubeStatusError, verbs: str, resource: str, namespace: str, address: Address
    ) -> UpstreamError:
        if error.status == 403:
            role = f"kubectl -n {namespace} create role kproxy --verb={verbs} --resource={resource}"
            return UpstreamError(
                *KUBERNETES_FORBIDDEN.with_reason(address=address, error=error, role=role, name=self._name)
            )
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
        for task in list(self._relay_tasks):
            task.cancel()
        if self._relay_tasks:
            await asyncio.wait(list(self._relay_tasks))


def _api_path(group: str, namespace: str, resource: str, name: str = "") -> str:
    top = f"/apis/{group}/v1" if group else "/api/v1"
    path = f"{top}/namespaces/{quote(namespace, safe='')}/{resource}"
    return f"{path}/{quote(name, safe='')}" if name else path
