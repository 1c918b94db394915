"""The lines with which each broker advertises an address that this machine can connect to. Pure.

Lines are printed only if they are complete: made of all settings of the broker, its controllers' listener included, and
accepted by kproxy's own lint. If kproxy does not see a broker's settings, it says so, and prints what to add to each
line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count

from kproxy.base.address import Address
from kproxy.base.addressclass import is_loopback
from kproxy.base.faults import Fault
from kproxy.inspect.doctor import lint_check
from kproxy.inspect.doctor import listeners as settings
from kproxy.inspect.doctor.evidence import Contact, Examination
from kproxy.inspect.doctor.listener_changes import (
    ExaminedBroker,
    ListenerChange,
    VisibleSettings,
    brokers_of,
    listener_changes,
)

_PREFIX = {"bitnami": "KAFKA_CFG_", "confluent": "KAFKA_"}
_IMAGES = {"bitnami": "bitnami/kafka", "confluent": "confluentinc/cp-kafka"}
# Where Kafka keeps its data by itself, in Apache's image as elsewhere. The image has defaults for these settings, and
# none once one variable is set.
_DEFAULT_LOGS = ("/tmp/kraft-combined-logs", "/tmp/kafka-logs")  # compared, not used
_APACHE_NEEDS = (
    "node.id",
    "process.roles",
    "controller.listener.names",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "log.dirs",
)
# Strimzi's own listeners, which its users do not write.
_STRIMZIS_OWN = ("replication", "controlplane")


def lines(
    fault: Fault, contacts: Sequence[Contact], examination: Examination, *, for_others: bool = False
) -> tuple[str, ...]:
    """Return the lines for all brokers that must change, each under the name of its broker.

    Other lines begin with `# `, or are the client's. `for_others`: the addresses are wrong for other machines, not for
    this one.
    """
    brokers = brokers_of(examination, for_others=for_others)
    every = [
        {name: value for name, value in settings_of_broker.values.items() if value}
        for settings_of_broker in examination.broker_settings.values()
    ]
    if any(settings.recognise_image(values) == "strimzi" for values in every):
        return _strimzi([values for values in every if settings.are_readable(values)], examination)
    changes = listener_changes(fault, contacts, examination, brokers)
    if not changes:
        return ()
    visible_changes = [(change, change.broker.visible) for change in changes if change.broker.visible is not None]
    mistakes = _mistakes(visible_changes)
    several = len(brokers) > 1
    return (
        *_for_whom(brokers),
        *chain.from_iterable(
            _complete_lines(change, visible, mistakes.get(str(change.broker.key)), several)
            for change, visible in visible_changes
        ),
        *_checked(visible_changes, mistakes),
        *_partial_lines([change for change in changes if change.broker.visible is None], several),
        *_container_forms(visible_changes, len(changes)),
        *_client_lines(changes, examination),
    )


def _mistakes(visible_changes: Sequence[tuple[ListenerChange, VisibleSettings]]) -> dict[str, list[str]]:
    """Return what kproxy's own lint finds in the changed settings, by broker, in the form in which they are printed."""
    before = {str(change.broker.key): visible.values for change, visible in visible_changes}
    after = {str(change.broker.key): {**visible.values, **change.changed} for change, visible in visible_changes}
    mistakes = lint_check.mistakes(before, after)
    for image, prefix in _PREFIX.items():
        of_image = {name for name, values in before.items() if settings.recognise_image(values) == image}
        of_variables = lint_check.mistakes_of_variables(
            {name: before[name] for name in of_image}, {name: after[name] for name in of_image}, _IMAGES[image], prefix
        )
        for name, texts in of_variables.items():
            mistakes[name] = list(dict.fromkeys([*mistakes.get(name, []), *texts]))
    return mistakes


def _checked(
    visible_changes: Sequence[tuple[ListenerChange, VisibleSettings]], mistakes: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield how far the lines were tried."""
    if any(str(change.broker.key) not in mistakes for change, _ in visible_changes):
        yield "# kproxy's own lint finds no mistake in these lines; they have not run: kproxy restarts no broker"


def _for_whom(brokers: Sequence[ExaminedBroker]) -> Iterator[str]:
    local = next(
        (
            broker.working_address
            for broker in brokers
            if broker.working_address is not None and is_loopback(broker.working_address.host)
        ),
        None,
    )
    if local is not None:
        yield f"# these lines serve clients on this machine only, as {local} is one of its own ports"


def _complete_lines(
    change: ListenerChange, visible: VisibleSettings, mistakes: Sequence[str] | None, several: bool
) -> Iterator[str]:
    """Yield all lines of a broker whose settings kproxy sees."""
    if mistakes or not settings.are_readable({**visible.values, **change.changed}):
        why = "; ".join(mistakes or ["they have a form that Kafka does not know"])
        yield f"# {change.broker.key}: no lines, as kproxy's own lint refuses those that it would print: {why}"
        return
    write, in_container = _writer(visible.values)
    broker_prefix = f"{change.broker.key}, " if several else ""
    where = "variables of its container" if in_container else "server.properties"
    only = f". Only {change.name} changes in it" if change.port is None else ""
    yield f"# {broker_prefix}{where}: each in the place of the line that is there, if there is one{only}"
    yield from (write(f"{key}={value}") for key, value in change.changed.items())
    dynamic = ", ".join(key for key in change.changed if key in visible.dynamic)
    if dynamic:
        yield (
            f"# {change.broker.key} has {dynamic} as a dynamic setting, which wins over this: delete it there with"
            f" kafka-configs --entity-type brokers --entity-name {change.broker.key.node_id} --alter --delete-config …"
        )
    if change.port is not None:
        yield from _own_settings(change, visible)
        yield from _how_to_open(change)


def _own_settings(change: ListenerChange, visible: VisibleSettings) -> Iterator[str]:
    """Yield the settings of its own that the new listener needs, and that kproxy cannot write."""
    old, new = visible.listener.name.lower(), change.name.lower()
    if visible.secret:
        yield f"# also listener.name.{new}.… with the values of {', '.join(visible.secret)}, which kproxy does not show"
    elif change.protocol.startswith("SASL"):
        yield f"# if the broker's JAAS file has a section {old}.KafkaServer, it needs one {new}.KafkaServer too"


def _how_to_open(change: ListenerChange) -> Iterator[str]:
    """Yield how clients can connect to the new listener."""
    broker, port = change.broker, change.port
    if broker.working_address is None:
        yield (
            f"# {change.address.host}: where clients reach {broker.key}. Open, publish or forward its port {port};"
            " if that is another port there, advertise that one"
        )
    elif broker.forwarded is not None:
        place = f"in the place of port {broker.forwarded}"
        yield f"# and let {broker.working_address} lead to port {port} of {broker.key}, {place}"
    else:
        yield f"# and let clients reach port {port} of {broker.key} at {change.address} (open, publish or forward it)"


def _partial_lines(changes: Sequence[ListenerChange], several: bool) -> Iterator[str]:
    """Yield the entries to add to lines that kproxy does not see; once for all brokers that it did not reach."""
    groups: dict[tuple[str, Address, str], list[ListenerChange]] = {}
    for change in changes:
        alone = str(change.broker.key) if change.broker.working_address is not None else ""
        groups.setdefault((alone, change.address, change.broker.why_not_visible), []).append(change)
    for members in groups.values():
        first = members[0]
        broker_prefix = f"{', '.join(str(change.broker.key) for change in members)}: " if several else ""
        yield (
            f"# {broker_prefix}{first.broker.why_not_visible}. So these are no whole lines: … stands for what the line"
            " has now. All of it must stay, the controllers' listener too"
        )
        yield f"listeners=…,{first.name}://:{first.port}"
        yield f"advertised.listeners=…,{first.name}://{first.address}"
        yield f"listener.security.protocol.map=…,{first.name}:{first.protocol}"
        if len(members) == 1:
            yield from _how_to_open(first)
        else:
            yield (
                f"# {first.address.host}: where clients reach this broker, for each another host or port. Open, publish"
                f" or forward its port {first.port}; if that is another port there, advertise that one"
            )
    if changes:
        yield "# kproxy could not check them: check the file with 'kproxy lint FILE' before the restart"
        yield (
            "# a line that is not there yet needs Kafka's default for …: for listeners PLAINTEXT://:9092, for"
            " advertised.listeners all that listeners has but the controllers'; for the map each controllers' listener"
            f" with :PLAINTEXT, and {settings.DEFAULT_MAP}"
        )


def _writer(values: Mapping[str, str]) -> tuple[Callable[[str], str], bool]:
    """Return a function that writes a line in the form that the broker takes, and whether that is a container's."""
    prefix = _PREFIX.get(settings.recognise_image(values) or "")
    if prefix is None:
        return (lambda line: line), False
    return (lambda line: settings.variable(line, prefix)), True


def _container_forms(visible_changes: Sequence[tuple[ListenerChange, VisibleSettings]], brokers: int) -> Iterator[str]:
    """Yield the form of lines as variables, if nothing tells how a broker is configured."""
    of_unknown_form = [(change, visible) for change, visible in visible_changes if not _writer(visible.values)[1]]
    if not of_unknown_form and len(visible_changes) == brokers:
        return
    yield (
        "# in a container each line is a variable: KAFKA_ADVERTISED_LISTENERS=… in Confluent's and Apache's images,"
        " KAFKA_CFG_ADVERTISED_LISTENERS=… in Bitnami's"
    )
    for change, visible in [pair for pair in of_unknown_form if pair[1].values.get("log.dirs") in _DEFAULT_LOGS][:1]:
        own = [
            f"{key}={visible.values[key]}" for key in _APACHE_NEEDS if settings.is_plain(visible.values.get(key, ""))
        ]
        needs = " ".join(settings.variable(line, "KAFKA_") for line in own)
        whose = f", here of {change.broker.key}" if brokers > 1 else ""
        if needs:
            yield f"# Apache's image has no defaults once one variable is set. Then it needs these too{whose}: {needs}"


def _client_lines(changes: Sequence[ListenerChange], examination: Examination) -> Iterator[str]:
    """Yield the client's own line, if it changes."""
    addresses = list(
        dict.fromkeys(str(change.address) for change in changes if change.broker.working_address is not None)
    )
    restart = "# restart the broker" if len(changes) == 1 else "# restart the brokers, one after the other"
    if changes[0].port is None or {str(contact.name) for contact in examination.bootstrap} <= set(addresses):
        yield f"{restart}; the client's bootstrap.servers stays"
    else:
        yield f"{restart}; then, in the client:"
        yield f"bootstrap.servers={','.join(addresses or dict.fromkeys(str(one.address) for one in changes))}"


def _strimzi(every: Sequence[Mapping[str, str]], examination: Examination) -> tuple[str, ...]:
    """Return one more listener in the Kafka resource: the operator writes the brokers' settings itself."""
    entries = {entry.strip().partition(":")[0] for values in every for entry in values[settings.LISTENERS].split(",")}
    ports = {
        name: port
        for name, _, port in (entry_name.lower().rpartition("-") for entry_name in entries)
        if port.isdecimal()
    }
    port = next(port for port in range(9094, 65536) if str(port) not in ports.values())
    name = next(
        entry_name for entry_name in chain(("external",), (f"kproxy{n}" for n in count(1))) if entry_name not in ports
    )
    new = [f"- name: {name}", f"  port: {port}", "  type: nodeport", f"  tls: {str(examination.tls).lower()}"]
    listeners = [
        [f"- {{name: {name}, port: {port}, type: internal, tls: false}}"]
        for name, port in ports.items()
        if name not in _STRIMZIS_OWN
    ]
    mistakes = lint_check.strimzi([*listeners, new])
    if mistakes:
        return (f"# no lines, as kproxy's own lint refuses those that it would print: {'; '.join(mistakes)}",)
    return (
        "# in the Kafka resource, one more of spec.kafka.listeners; those that are there stay. The type may also be"
        " loadbalancer, ingress or route (those two with TLS)",
        *new,
        "# the operator then shows the clients' bootstrap.servers in the resource's status.listeners",
    )
