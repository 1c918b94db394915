"""Workloads of Kubernetes: the containers of Deployments, StatefulSets and the like, and the files in ConfigMaps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kproxy.advice.lint import images, properties, redpanda
from kproxy.advice.lint.clientsettings import ClientSource, add_clients, add_clients_of_variables
from kproxy.advice.lint.commandline import add_clients_of_command
from kproxy.advice.lint.container import Container, Platform
from kproxy.advice.lint.filekinds import FileKind, recognise_kind
from kproxy.advice.lint.model import BrokerConfig, ImageFamily, Setup
from kproxy.advice.lint.source import SourceFile
from kproxy.advice.lint.tree import YamlNode, flatten, parse_block
from kproxy.advice.lint.value import ConfigValue, LineLayout

_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "DaemonSet", "Job", "CronJob", "Pod")
_MOST_CONTAINERS, _MOST_FILES, _MOST_COPIES, _MOST_SERVICES = 200, 100, 1000, 500
_LISTENING = re.compile(r"KAFKA_(CFG_)?((ADVERTISED_)?LISTENERS|PROCESS_ROLES|BROKER_ID|NODE_ID)")
_NODE_ID = re.compile(r"KAFKA_(CFG_)?(BROKER|NODE)_ID")
_VARIABLE = re.compile(r"\$\(([^()]*)\)")
_MOUNTED = ("server.properties", "/mnt/shared/config", "/bitnami/kafka/config", "/opt/bitnami/kafka/config")


@dataclass(slots=True)
class _Service:
    """A Service of Kubernetes."""

    name: str
    namespace: str
    selector: dict[str, str]
    is_headless: bool

    @property
    def names(self) -> set[str]:
        namespace = self.namespace or "default"
        full = f"{self.name}.{namespace}.svc"
        return {self.name, f"{self.name}.{namespace}", full, f"{full}.cluster.local"}


@dataclass(slots=True)
class _Resources:
    """The objects of the files that are no workloads."""

    services: list[_Service] = field(default_factory=list)
    config_maps: dict[str, YamlNode] = field(default_factory=dict)


def add_workloads(roots: list[YamlNode], setup: Setup) -> bool:
    """Add the brokers and clients of one file to the setup; return False if it has no workload and no ConfigMap."""
    items = [item for root in roots for item in (root["items"].items if root["kind"].text == "List" else [root])]
    resources = _Resources()
    for item in items:
        name = item["metadata"]["name"].text
        if item["kind"].text == "Service":
            selector = {key: value.text for key, value in item["spec"]["selector"].mapping.items()}
            headless = item["spec"]["clusterIP"].text == "None"
            resources.services.append(_Service(name, item["metadata"]["namespace"].text, selector, headless))
        elif item["kind"].text == "ConfigMap":
            resources.config_maps[name] = item["data"]
    del resources.services[_MOST_SERVICES:]
    workloads = [item for item in items if item["kind"].text in _KINDS]
    budget = _MOST_CONTAINERS
    for workload in workloads:
        pod = _pod(workload)
        for node in pod["spec"]["containers"].items[:budget]:
            _ContainerReader(workload, pod, node, resources, setup).read()
            budget -= 1
    if not budget:
        setup.add_unchecked(f"all but the first {_MOST_CONTAINERS} containers")
    for name, data in resources.config_maps.items():
        for key, node in list(data.mapping.items())[:_MOST_FILES]:
            _add_file(f"ConfigMap {name}: {key}", key, node, setup)
    return bool(workloads or resources.config_maps)


def _pod(workload: YamlNode) -> YamlNode:
    kind = workload["kind"].text
    if kind == "Pod":
        return workload
    spec = workload["spec"]
    return spec["jobTemplate"]["spec"]["template"] if kind == "CronJob" else spec["template"]


def _add_file(name: str, filename: str, node: YamlNode, setup: Setup) -> None:
    """Add what a file inside of a block configures."""
    if not node.is_literal():
        return
    kind = recognise_kind(SourceFile(filename, node.text))
    origin = ClientSource(node.source, name, kind)
    if kind is FileKind.SERVER:
        values = properties.parse(node.source, *node.block()).values
        location = min((value.location for value in values.values()), key=lambda place: place.index)
        setup.brokers.append(BrokerConfig(name, ImageFamily.PROPERTIES, location, values, complete=False))
    elif kind is FileKind.APPLICATION and (roots := parse_block(node)) and roots[0].mapping:
        add_clients(origin, flatten(roots[0])[0], setup)
    elif kind in (FileKind.CLIENT, FileKind.LIBRDKAFKA, FileKind.CONNECT, FileKind.SPARK, FileKind.APPLICATION):
        add_clients(origin, properties.parse(node.source, *node.block()).values, setup)


class _ContainerReader:
    """Reads one container of a pod."""

    def __init__(self, workload: YamlNode, pod: YamlNode, node: YamlNode, resources: _Resources, setup: Setup) -> None:
        self.workload = workload
        self.pod = pod
        self.node = node
        self.resources = resources
        self.setup = setup
        self.has_other_variables = False

    def read(self) -> None:
        node, name = self.node, self.workload["metadata"]["name"].text or "pod"
        environment = self.environment()
        links = self.pod["spec"]["enableServiceLinks"].text.lower() != "false"
        container = Container(
            name=name if len(self.pod["spec"]["containers"].items) == 1 else f"{name}/{node['name'].text}",
            location=node.location,
            image=node["image"].scalar(),
            names=frozenset(self.names(name)),
            networks=frozenset(["Kubernetes"]),
            uses_host_network=self.pod["spec"]["hostNetwork"].text.lower() == "true",
            published_ports=(),
            environment=environment,
            platform=Platform.KUBERNETES,
            is_complete=not self.has_other_variables and not node["command"],
            linked_services=frozenset(
                service.name for service in self.resources.services if links and not service.is_headless
            ),
        )
        self.setup.containers.append(container)
        words = [word.value() for word in (*node["command"].items, *node["args"].items) if word.is_scalar]
        if not self.add_broker(container, words) and not redpanda.add_broker_of_command(container, words, self.setup):
            origin = ClientSource(node.source, f"container {container.name}", None, container)
            add_clients_of_variables(origin, environment, self.setup)
            add_clients_of_command(origin, words, self.setup)
            for block in [item["value"] for item in node["env"].items if item["value"].is_literal()]:
                for root in parse_block(block):
                    add_clients(replace(origin, kind=FileKind.APPLICATION), flatten(root)[0], self.setup)

    def names(self, workload: str) -> Iterator[str]:
        """Yield the names that other pods have for this one."""
        yield workload
        labels = {key: value.text for key, value in self.pod["metadata"]["labels"].mapping.items()}
        governing = self.workload["spec"]["serviceName"].text
        for service in self.resources.services:
            if service.selector and service.selector.items() <= labels.items():
                yield from service.names
                if service.name == governing:
                    pods = (f"{workload}-{number}" for number in range(min(self.copies, 20)))
                    yield from (f"{pod}.{name}" for pod in pods for name in service.names)

    @property
    def copies(self) -> int:
        text = self.workload["spec"]["replicas"].text
        return min(int(text), _MOST_COPIES) if text.isdecimal() and int(text) else 1

    def environment(self) -> dict[str, ConfigValue]:
        values: dict[str, ConfigValue] = {}
        for item in self.node["envFrom"].items:
            data = self.resources.config_maps.get(item["configMapRef"]["name"].text)
            if data is None:
                self.has_other_variables = True
            else:
                values |= {key: value.value() for key, value in data.mapping.items() if value.is_scalar}
        for item in self.node["env"].items:
            name, node = item["name"], item["value"]
            if not name.text:
                continue
            key = name.value()
            if node.is_scalar:
                value = node.value(lambda text: _expanded(text, values))
            else:  # another object has it
                field = item["valueFrom"]["fieldRef"]["fieldPath"].text
                # The pod's name is no number, whatever it is.
                is_name = field == "metadata.name" and _NODE_ID.fullmatch(name.text)
                pod = f"{self.workload['metadata']['name'].text or 'pod'}-0"
                value = replace(key, text=pod if is_name else f"${{{name.text}}}")
            values[name.text] = value.as_entry(key)
        return values

    def add_broker(self, container: Container, words: list[ConfigValue]) -> bool:
        """Add the broker that the container runs; return False if it runs none."""
        environment = dict(container.environment)
        image = images.recognise_image(container.image.text if container.image else "")
        # What an image starts without a command is its broker, whatever the variables are called.
        if not any(_LISTENING.fullmatch(word) for word in environment) and (image is None or words):
            return False
        # A shell gives each pod what differs: kproxy does not read it.
        script = " ".join(word.text for word in words)
        for word in set(re.findall(r"\b(KAFKA_\w+)=", script)) & environment.keys():
            del environment[word]
        family = image.family if image else images.likely_family(environment)
        mounts = [mount["mountPath"].text + mount["subPath"].text for mount in self.node["volumeMounts"].items]
        is_mounted = any(path in mount for mount in mounts for path in _MOUNTED)
        complete = image is not None and not words and not is_mounted and not self.has_other_variables
        if not complete:
            self.setup.add_unchecked(f"{container.name}: what its command, its mounted files or other objects set")
        settings = images.settings_of(family, environment)
        self.setup.brokers.append(
            BrokerConfig(
                name=container.name,
                family=family,
                location=container.location,
                settings=settings,
                defaults=images.defaults(family, settings) if complete else {},
                container=container,
                version=image.version if image else None,
                kraft_only=image.kraft_only if image else False,
                complete=complete,
                environment=environment,
                layout=LineLayout.ENTRY,
                copies=self.copies,
            )
        )
        return True


def _expanded(text: str, values: Mapping[str, ConfigValue]) -> str:
    """Replace `$(NAME)` as Kubernetes does; a name without a value here stays as `${NAME}`."""
    return _VARIABLE.sub(lambda match: values[match[1]].text if match[1] in values else f"${{{match[1]}}}", text)
