"""Who is in the groups of a cluster: the client ids of their members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kproxy.base.errors import UpstreamError
from kproxy.base.printable import one_line
from kproxy.migrate.clusters.administration import Admin, error_name
from kproxy.proxy.switching.parts import MAX_CLIENT_ID

CLASSIC, CONSUMER = "classic", "consumer"
_GROUP_ENDED = frozenset({16, 69})  # NOT_COORDINATOR, GROUP_ID_NOT_FOUND: it has moved or ended since it was listed
_BATCH_SIZE = 100

GroupMembers = Mapping[str, frozenset[str]]
"""By group, the client ids of its members, as kproxy shows them; none of a group of a kind that does not tell them."""


def read_members(admin: Admin, wants: Callable[[str], bool]) -> GroupMembers:
    """Of all groups with these names. Raises UpstreamError."""
    from kafka.protocol.admin import ListGroupsRequest

    found: dict[str, frozenset[str]] = {}
    for node in sorted(admin.nodes()):
        answer = admin.ask(ListGroupsRequest(), node)
        _raise_for_code(answer.error_code, "list its groups", node)
        kinds: dict[str, list[str]] = {}
        for one in answer.groups:
            if wants(one.group_id):
                kinds.setdefault((getattr(one, "group_type", "") or CLASSIC).lower(), []).append(str(one.group_id))
        for kind, names in kinds.items():
            for at in range(0, len(names), _BATCH_SIZE):
                found |= _describe_groups(admin, node, kind, names[at : at + _BATCH_SIZE])
    return dict(sorted(found.items()))


def _describe_groups(admin: Admin, node: int, kind: str, names: Sequence[str]) -> dict[str, frozenset[str]]:
    from kafka.protocol.admin import DescribeGroupsRequest

    from kproxy.migrate.clusters.shares import ConsumerGroupDescribeRequest

    if kind == CLASSIC:
        answer = admin.ask(DescribeGroupsRequest(groups=list(names)), node)
    elif kind == CONSUMER:
        answer = admin.ask(ConsumerGroupDescribeRequest(group_ids=list(names)), node)
    else:
        return {name: frozenset() for name in names}
    found = {}
    for one in answer.groups:
        if one.error_code not in _GROUP_ENDED:
            _raise_for_code(one.error_code, f"describe group {one.group_id}", node)
            found[str(one.group_id)] = frozenset(
                one_line(str(each.client_id), MAX_CLIENT_ID) for each in one.members or ()
            )
    return found


def _raise_for_code(code: int, what: str, node: int) -> None:
    if code:
        raise UpstreamError("other", f"broker {node} does not {what}: {error_name(code)}")
