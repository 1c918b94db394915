"""The brokers in the list that `kcat -L` prints, with addresses that only others can use (pure).

A list is no failure. Its addresses show why a client fails that has only seen the first broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kproxy.advice.explain.facts import LineFacts, is_ip, split_address
from kproxy.advice.explain.hostnames import NameKind, name_kind
from kproxy.advice.explain.matches import MessageMatch
from kproxy.advice.explain.patterns import LISTED_BROKER, MessagePattern
from kproxy.advice.remedies.remedy import Program
from kproxy.base.addressclass import AddressClass, classify
from kproxy.base.faults import Fault

# The first line names the broker that has answered. Of a bootstrap server, the id is negative. An address has no other
# characters than these, as it is printed to the user's terminal.
_ANSWERED = re.compile(
    rb"Metadata for .{1,260} \(from broker -?\d{1,10}: ([\w.:%\[\]-]{3,260})/(?:bootstrap|\d{1,10})\)"
)
_BROKER = re.compile(rb"\s{1,8}broker (\d{1,10}) at ([\w.:%\[\]-]{3,260}:\d{1,5})(?: \(controller\))?\s*")
_OF_CLASS = {
    AddressClass.LOOPBACK: Fault.LOOPBACK_ADVERTISED,
    AddressClass.WILDCARD: Fault.WILDCARD_ADVERTISED,
    AddressClass.PRIVATE: Fault.PRIVATE_ADDRESS_ADVERTISED,
}
_OF_KIND = {
    NameKind.CONTAINER_ID: Fault.CONTAINER_NAME_ADVERTISED,
    NameKind.SERVICE: Fault.CONTAINER_NAME_ADVERTISED,
    NameKind.POD: Fault.KUBERNETES_NAME_ADVERTISED,
}
_PATTERNS = {
    fault: MessagePattern(Program.LIBRDKAFKA, LISTED_BROKER, ("broker ", " at "), (fault,), is_specific=True)
    for fault in (*_OF_CLASS.values(), *_OF_KIND.values())
}


def listed_brokers(lines: Iterable[bytes]) -> Iterator[tuple[int, MessageMatch]]:
    """Yield the brokers of a list whose addresses are not of the kind that the client has used, with their lines."""
    asked = ""
    for number, line in enumerate(lines, 1):
        if answered := _ANSWERED.search(line):
            asked = split_address(answered[1].decode("utf-8", "replace"))[0]
        elif asked and (listed := _BROKER.fullmatch(line)):
            address = listed[2].decode("utf-8", "replace")
            fault = _fault_of(split_address(address)[0], asked)
            if fault is not None:
                facts = LineFacts(address=address, node=int(listed[1]), bootstrap=False)
                yield number, MessageMatch((fault,), _PATTERNS[fault], None, None, facts)


def _fault_of(host: str, asked: str) -> Fault | None:
    """Return what is wrong with an advertised host for a client that has reached `asked`; None if nothing shows it."""
    place, reached = classify(host), classify(asked)
    if place in _OF_CLASS:
        is_near = place is reached or (place is AddressClass.PRIVATE and not _is_other_network(asked))
        return None if is_near else _OF_CLASS[place]
    return (
        _OF_KIND.get(name_kind(host))
        if is_ip(asked) or _is_other_network(asked) or name_kind(asked) is NameKind.OTHER
        else None
    )


def _is_other_network(asked: str) -> bool:
    """Check whether the client is in no private network with the broker, as far as the address shows."""
    return classify(asked) is AddressClass.LOOPBACK or (is_ip(asked) and classify(asked) is AddressClass.PUBLIC)
