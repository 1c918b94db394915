"""The causes among the messages of a text, and the messages that only follow from them (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kproxy.advice.explain.facts import ClientFacts, host_of
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.explain.refine import refine
from kproxy.base.faults import Fault, fault_set

_UNREACHABLE_FAULTS = fault_set(
    """
    name-not-resolved name-resolves-wrongly dns-silent loopback-advertised wildcard-advertised
    container-name-advertised kubernetes-name-advertised private-address-advertised short-name-advertised host-gateway
    address-form port-closed filtered no-route ipv6-only
    """
)
_BETWEEN_NODES = _UNREACHABLE_FAULTS | {Fault.SILENT}
_TLS_FAULTS = fault_set(
    """
    tls-to-plaintext plaintext-to-tls certificate-name certificate-expired certificate-not-yet-valid
    certificate-untrusted client-certificate-missing client-certificate-refused tls-version tls-inspection
    """
)
_ALL_TLS_FAULTS = _TLS_FAULTS | {Fault.TLS_FAILED}
_LOGIN_FAULTS = fault_set(
    """
    login-needed login-not-offered sasl-mechanism credentials-refused kerberos credentials-unreadable
    """
)
# Faults of groups, transactions and requests that follow if clients cannot use brokers.
_NOT_READY_FAULTS = fault_set("jaas library-lacks-feature network-refused")  # the client cannot begin its login
_SECONDARY_FAULTS = fault_set("topic-unknown overloaded group no-coordinator no-controller configuration")

# The faults that follow from each fault.
_CONSEQUENCES: dict[Fault, frozenset[Fault]] = {
    **dict.fromkeys(
        _UNREACHABLE_FAULTS, _SECONDARY_FAULTS | {Fault.SILENT, Fault.CLOSED, Fault.BROKER_MISSING, Fault.NO_LEADER}
    ),
    **dict.fromkeys(
        _TLS_FAULTS,
        _SECONDARY_FAULTS | {Fault.CLOSED, Fault.SILENT, Fault.TLS_FAILED, Fault.FRAME_SIZE, Fault.PORT_CLOSED},
    ),
    **dict.fromkeys(_LOGIN_FAULTS, _SECONDARY_FAULTS | {Fault.CLOSED, Fault.SILENT, Fault.PORT_CLOSED}),
    Fault.SASL_MECHANISM: _SECONDARY_FAULTS | {Fault.CLOSED, Fault.CREDENTIALS_REFUSED},
    Fault.LOGIN_NOT_OFFERED: _SECONDARY_FAULTS | {Fault.CLOSED, Fault.CREDENTIALS_REFUSED},
    Fault.KERBEROS: _SECONDARY_FAULTS | {Fault.CLOSED, Fault.CREDENTIALS_REFUSED, Fault.CREDENTIALS_UNREADABLE},
    Fault.CREDENTIALS_UNREADABLE: _SECONDARY_FAULTS
    | {Fault.CLOSED, Fault.TLS_FAILED, Fault.CREDENTIALS_REFUSED, Fault.CERTIFICATE_UNTRUSTED},
    Fault.CLOCK: _SECONDARY_FAULTS | {Fault.CLOSED, Fault.CREDENTIALS_REFUSED, Fault.KERBEROS},
    **dict.fromkeys(
        _NOT_READY_FAULTS,
        _SECONDARY_FAULTS
        | {
            Fault.CLOSED,
            Fault.CREDENTIALS_REFUSED,
            Fault.CREDENTIALS_UNREADABLE,
            Fault.KERBEROS,
            Fault.TLS_FAILED,
            Fault.NAME_NOT_RESOLVED,  # Java has the same message for a name and for a connection without a login
        },
    ),
    Fault.BROKER_STORAGE: frozenset({Fault.CONFIGURATION, Fault.NO_CONTROLLER, Fault.WRONG_CLUSTER}),
    Fault.KRAFT_CONFIGURATION: frozenset({Fault.CONFIGURATION, Fault.NO_CONTROLLER}),
    Fault.OPTION_REMOVED: frozenset({Fault.CONFIGURATION}),
    Fault.NOT_ABOUT_REACHING_KAFKA: frozenset({Fault.CONFIGURATION, Fault.OVERLOADED}),
    Fault.NOT_KAFKA: _SECONDARY_FAULTS | {Fault.CLOSED, Fault.FRAME_SIZE, Fault.SILENT},
    Fault.TLS_FAILED: _SECONDARY_FAULTS | {Fault.CLOSED, Fault.SILENT},
    Fault.SILENT: _SECONDARY_FAULTS | {Fault.CLOSED},
    Fault.CLOSED: _SECONDARY_FAULTS,
    Fault.TOO_MANY_FILES: _SECONDARY_FAULTS | {Fault.CLOSED, Fault.PORT_CLOSED},
    Fault.BROKER_MISSING: frozenset(
        {Fault.NO_COORDINATOR, Fault.NO_LEADER, Fault.NOT_ENOUGH_REPLICAS, Fault.OVERLOADED}
    ),
    Fault.NOT_AUTHORIZED: frozenset({Fault.OVERLOADED, Fault.CONFIGURATION}),
    Fault.TOPIC_UNKNOWN: frozenset({Fault.OVERLOADED}),
    Fault.NO_LEADER: frozenset({Fault.OVERLOADED}),
    Fault.NO_COORDINATOR: frozenset({Fault.GROUP, Fault.OVERLOADED}),
    Fault.LISTENER_CONFIGURATION: frozenset({Fault.CONFIGURATION}),
    Fault.FRAME_SIZE: frozenset({Fault.CLOSED}),
}


# What the address shows explains other messages about the same address that do not show who has chosen it.
for _fault, _same in {
    Fault.LOOPBACK_ADVERTISED: "port-closed",
    Fault.WILDCARD_ADVERTISED: "port-closed",
    Fault.PRIVATE_ADDRESS_ADVERTISED: "port-closed filtered no-route",
    Fault.CONTAINER_NAME_ADVERTISED: "name-not-resolved dns-silent",
    Fault.SHORT_NAME_ADVERTISED: "name-not-resolved dns-silent",
    Fault.KUBERNETES_NAME_ADVERTISED: "name-not-resolved dns-silent",
    Fault.HOST_GATEWAY: "name-not-resolved dns-silent",
    Fault.ADDRESS_FORM: "name-not-resolved dns-silent",
}.items():
    _CONSEQUENCES[_fault] |= fault_set(_same)


@dataclass(slots=True)
class Cause:
    """Messages with one cause, and the messages that follow from it."""

    faults: tuple[Fault, ...]
    """Several if the messages fit each of them; none if only the meaning of an error code is known."""
    matches: list[MessageMatch]
    consequences: list[MessageMatch] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The first line of the text that belongs to it."""
        return min(match.first for match in self.matches)

    @property
    def is_elsewhere(self) -> bool:
        """True if it is not about reaching Kafka."""
        return self.faults == (Fault.NOT_ABOUT_REACHING_KAFKA,)

    @property
    def is_between_nodes(self) -> bool:
        """True if a broker or controller does not reach another node, so that no client is concerned."""
        return any(match.broker for match in self.matches) and _BETWEEN_NODES.issuperset(self.faults)

    def clients(self) -> set[str]:
        return {match.facts.client for match in self.matches if match.facts.client}

    def addresses(self) -> list[str]:
        """Return the addresses in the order of the text, without a host that also stands there with its port."""
        addresses = list(dict.fromkeys(match.facts.address for match in self.matches if match.facts.address))
        hosts = {host_of(address) for address in addresses if host_of(address) != address}
        return [address for address in addresses if address not in hosts]

    def addresses_and_resolved(self) -> list[str]:
        """Return the addresses, and those to which clients have resolved them."""
        matches = (*self.matches, *self.consequences)
        resolved = (match.facts.resolved for match in matches if match.facts.resolved)
        return list(dict.fromkeys((*self.addresses(), *resolved)))


_WEAK_FAULTS = frozenset({Fault.SILENT, Fault.CLOSED})
_TIMEOUTS = frozenset({Fault.SILENT, Fault.FILTERED})

# The last faults in the list where a message fits several causes, because they are the least specific.
_UNSPECIFIC_FAULTS = fault_set("not-kafka closed silent tls-failed overloaded")

# A message that fits all of these shows only that something failed.
_VAGUE_FAULTS = frozenset({Fault.PORT_CLOSED, Fault.CLOSED})


def causes_of(matches: Iterable[MessageMatch], client: ClientFacts) -> list[Cause]:
    """Return the causes, the first one to fix first."""
    all_matches = [refine(match, client) for match in matches]
    certain = list(_merge_by_fault(match for match in all_matches if len(match.faults) == 1))
    unclear = [match for match in all_matches if len(match.faults) > 1]
    unknown = [match for match in all_matches if not match.faults]

    roots: list[Cause] = []
    for cause in certain:
        parent = next((other for other in certain if other is not cause and _explains(other, cause)), None)
        if parent is None:
            roots.append(cause)
    for cause in certain:
        if cause not in roots:
            _root_of(cause, certain, roots).consequences += cause.matches
    unexplained = []
    for match in unclear:
        parent = _root_explaining(match, roots)
        if parent:
            parent.consequences.append(match)
        else:
            unexplained.append(match)
    groups = _without_bare_timeouts(_narrow(unexplained), roots)
    for root in [root for root in roots if root.faults[0] in _SECONDARY_FAULTS | _WEAK_FAULTS]:
        group = next((group_ for group_ in groups if _may_explain(group_, root)), None)
        if group:
            roots.remove(root)
            group.consequences += root.matches + root.consequences
    roots += groups
    roots += [Cause((), [match]) for match in unknown if not roots]
    for root in roots:
        root.consequences.sort(key=lambda match: match.first)
    for root in groups:
        root.faults = tuple(sorted(root.faults, key=lambda fault: fault in _UNSPECIFIC_FAULTS))
    return sorted(roots, key=lambda cause: (cause.is_elsewhere, len(cause.faults) != 1, cause.first))


def _merge_by_fault(matches: Iterable[MessageMatch]) -> Iterator[Cause]:
    """Yield one cause for each fault."""
    by_fault: dict[Fault, Cause] = {}
    for match in matches:
        fault = match.faults[0]
        if fault in by_fault:
            by_fault[fault].matches.append(match)
        else:
            by_fault[fault] = Cause((fault,), [match])
    return iter(by_fault.values())


def _explains(upper: Cause, lower: Cause) -> bool:
    if lower.faults[0] not in _CONSEQUENCES.get(upper.faults[0], ()):
        return False
    if upper.faults[0] in _CONSEQUENCES.get(lower.faults[0], ()) and lower.first < upper.first:
        return False  # each may follow from the other: the first in the text is the cause
    return _may_be_related(upper, lower)


def _may_be_related(upper: Cause, lower: Cause) -> bool:
    """Check whether both may belong to one client and one address."""
    if upper.clients() and lower.clients() and not upper.clients() & lower.clients():
        return False
    if lower.faults and lower.faults[0] in _SECONDARY_FAULTS:
        return True
    addresses, others = upper.addresses_and_resolved(), lower.addresses_and_resolved()
    return (
        not addresses or not others or any(_same_address(address, other) for address in addresses for other in others)
    )


def _same_address(address: str, other: str) -> bool:
    """Compare two addresses. Some messages have no port, and the local machine has several names."""
    hosts, ports = zip(*map(_split_address, (address, other)), strict=True)
    return hosts[0] == hosts[1] and (ports[0] == ports[1] or "" in ports)


def _split_address(address: str) -> tuple[str, str]:
    host = host_of(address)
    port = address[len(host) + 1 :]
    return ("localhost" if host.startswith("127.") or host == "[::1]" else host), port


def _may_explain(group: Cause, root: Cause) -> bool:
    """Check whether a certain cause may follow from a group of messages that fit several causes."""
    if root.faults[0] not in _SECONDARY_FAULTS and root.first < group.first:
        return False
    return _may_be_related(group, root) and any(
        root.faults[0] in _CONSEQUENCES.get(fault, ()) for fault in group.faults
    )


def _root_of(cause: Cause, certain: list[Cause], roots: list[Cause]) -> Cause:
    """Return the root above a cause."""
    visited: list[Cause] = []
    while cause not in roots:
        visited.append(cause)
        parent = next((other for other in certain if other not in visited and _explains(other, cause)), None)
        if parent is None:
            return roots[0] if roots else cause
        cause = parent
    return cause


def _root_explaining(match: MessageMatch, roots: list[Cause]) -> Cause | None:
    """Return the root that explains a message with several possible causes."""
    candidate = Cause(match.faults, [match])
    fits = [root for root in roots if _may_be_related(root, candidate)]
    same = [root for root in fits if root.faults[0] in match.faults]
    after = [root for root in fits if _CONSEQUENCES.get(root.faults[0], frozenset()) & set(match.faults)]
    # A silent server or a closed connection may itself follow from an earlier message.
    after = [root for root in after if root.faults[0] not in _WEAK_FAULTS or root.first < match.first]
    if match.broker:  # a broker has many clients, each with its own cause
        after = []
    if not match.facts.address and not match.broker and _is_vague(match.faults):
        same = same or after or [root for root in roots if not root.is_elsewhere and root.first < match.first]
    elif not match.facts.address:  # a failed request without an address belongs to the first cause that fits
        same = same or after
    return next(iter(sorted(same, key=lambda root: root.first) + sorted(after, key=lambda root: root.first)), None)


def _narrow(matches: list[MessageMatch]) -> list[Cause]:
    """Group messages of one client with several possible causes by the causes that they have in common."""
    groups: list[Cause] = []
    for match in sorted(matches, key=_place_among_unclear):
        candidate = Cause(match.faults, [match])
        for group in groups:
            if _is_vague(match.faults) and not _is_vague(group.faults) and _may_be_related(group, candidate):
                group.consequences.append(match)  # it fits nearly every cause and adds nothing
                break
            ends_so = Fault.CLOSED in match.faults or Fault.TLS_FAILED in match.faults
            common = tuple(fault for fault in group.faults if fault in match.faults)
            is_handshake = _ALL_TLS_FAULTS.issuperset(group.faults) and not (
                common and Fault.TLS_FAILED in match.faults
            )
            if ends_so and is_handshake and _may_be_related(group, candidate):
                group.consequences.append(match)  # so ends a connection whose handshake fails
                break
            if common and _may_be_related(group, candidate):
                group.faults = common
                group.matches.append(match)
                break
        else:
            groups.append(candidate)
    return groups


def _without_bare_timeouts(groups: list[Cause], roots: list[Cause]) -> list[Cause]:
    """Return the groups without timeouts that name no address, if a message that names one may be their reason."""
    kept = [group for group in groups if group.addresses() or not _TIMEOUTS.issuperset(group.faults)]
    for group in groups:
        if group not in kept:
            reasons = (cause for cause in [*roots, *kept] if cause.addresses() and _may_be_related(cause, group))
            reason = next(reasons, None)
            if reason is None:
                kept.append(group)
            else:
                reason.consequences += group.matches + group.consequences
    return kept


def _place_among_unclear(match: MessageMatch) -> tuple[bool, bool, bool, int, int]:
    """Return the place of a match with several causes: what is about TLS for sure first, what may be anything last."""
    is_tls = _ALL_TLS_FAULTS.issuperset(match.faults)
    return _is_vague(match.faults), not is_tls, Fault.TLS_FAILED in match.faults, len(match.faults), match.first


def _is_vague(faults: tuple[Fault, ...]) -> bool:
    return set(faults) >= _VAGUE_FAULTS


def merge_by_message(matches: Iterable[MessageMatch]) -> list[MessageMatch]:
    """Merge the matches of each message of a program, whatever their addresses."""
    merged: dict[tuple[object, ...], MessageMatch] = {}
    for match in matches:
        key = (match.program, match.text)
        if key in merged:
            earlier = merged[key]
            merged[key] = replace(
                earlier,
                first=min(earlier.first, match.first),
                last=max(earlier.last, match.last),
                count=earlier.count + match.count,
            )
        else:
            merged[key] = match
    return sorted(merged.values(), key=lambda match: match.first)
