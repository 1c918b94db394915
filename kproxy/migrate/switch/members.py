"""The client ids of the members in the groups of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kproxy.base.errors import UpstreamError
from kproxy.base.printable import one_line
from kproxy.migrate.clusters.administration import Admin
from kproxy.protocol.wire.errorcodes import ErrorCode, error_name
from kproxy.proxy.switching.parts import MAX_CLIENT_ID

CLASSIC, CONSUMER = "classic", "consumer"
# It has moved or ended since it was listed.
_GROUP_ENDED = (ErrorCode.NOT_COORDINATOR, ErrorCode.GROUP_ID_NOT_FOUND)
_BATCH_SIZE = 100

GroupMembers = Mapping[str, frozenset[str]]
"""By group, the client ids of its members, as kproxy shows them; none for kinds of groups without them."""


def read_members(admin: Admin, is_selected: Callable[[str], bool]) -> GroupMembers:
    """Return the members of all selected groups."""
    from kafka.protocol.admin import ListGroupsRequest

    members: dict[str, frozenset[str]] = {}
    for node in sorted(admin.nodes()):
        answer = admin.ask(ListGroupsRequest(), node)
        _raise_for_code(answer.error_code, "list its groups", node)
        kinds: dict[str, list[str]] = {}
        for group in answer.groups:
            if is_selected(group.group_id):
                kinds.setdefault((getattr(group, "group_type", "") or CLASSIC).lower(), []).append(str(group.group_id))
        for kind, names in kinds.items():
            for start in range(0, len(names), _BATCH_SIZE):
                members |= _describe_groups(admin, node, kind, names[start : start + _BATCH_SIZE])
    return dict(sorted(members.items()))


def _describe_groups(admin: Admin, node: int, kind: str, names: Sequence[str]) -> dict[str, frozenset[str]]:
    from kafka.protocol.admin import DescribeGroupsRequest

    from kproxy.migrate.clusters.shares import ConsumerGroupDescribeRequest

    if kind == CLASSIC:
        answer = admin.ask(DescribeGroupsRequest(groups=list(names)), node)
    elif kind == CONSUMER:
        answer = admin.ask(ConsumerGroupDescribeRequest(group_ids=list(names)), node)
    else:
        return {name: frozenset() for name in names}
    members = {}
    for group in answer.groups:
        if group.error_code not in _GROUP_ENDED:
            _raise_for_code(group.error_code, f"describe group {group.group_id}", node)
            members[str(group.group_id)] = frozenset(
                one_line(str(member.client_id), MAX_CLIENT_ID) for member in group.members or ()
            )
    return members


def _raise_for_code(code: int, action: str, node: int) -> None:
    if code:
        raise UpstreamError("other", f"broker {node} does not {action}: {error_name(code)}")
