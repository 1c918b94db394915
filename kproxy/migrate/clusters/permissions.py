"""Asking a cluster about what one may perhaps not see: that is named then, and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from kproxy.base.errors import UpstreamError
from kproxy.migrate.clusters.administration import Admin, UnsupportedRequestError, error_name
from kproxy.migrate.clusters.inventory import OPERATIONS, InventoryGap

T = TypeVar("T")

# Resources whose configurations can be asked.
TOPIC, BROKER = 2, 4
# Topics, partitions or groups in one request.
_CHUNK = 500
NOT_ALLOWED = {29, 30, 31, 53}  # of a topic, a group, the cluster, a transactional id
_DYNAMIC_TOPIC_CONFIG = 1  # where a configuration comes from
_OPERATIONS_OMITTED = 31  # the sign of the bit field: a broker that does not say it


class PermissionAwareQueries:
    """What is asked of one cluster. `unseen` is what one may not see, or its brokers do not know."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self.gaps: list[InventoryGap] = []

    def try_query(self, what: str, ask: Callable[[], T], operation: str, resource: str) -> T | None:
        """What `ask` returns; None if one may not see it."""
        try:
            return ask()
        except NotAllowedError:
            self.gaps.append(InventoryGap(what, f"not allowed: {operation} on {resource}", operation, resource))
        except UnsupportedRequestError as error:
            self.gaps.append(InventoryGap(what, f"these brokers have no {error}"))
        except UpstreamError as error:
            self.gaps.append(InventoryGap(what, str(error)))
        return None

    def read_configs(
        self, kind: int, names: Iterable[str], node: int | None = None
    ) -> dict[str, dict[str, tuple[str, bool]]]:
        """By name: each configuration, and whether it was set for the topic itself."""
        from kafka.protocol.admin import DescribeConfigsRequest as Request

        found: dict[str, dict[str, tuple[str, bool]]] = {}
        for some in chunks(list(names)):
            asked = [
                Request.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for name in some
            ]
            for result in self.admin.ask(Request(resources=asked), node).results:
                name = str(result.resource_name)
                if result.error_code:
                    what = f"topic {name}" if kind == TOPIC else f"broker {name}"
                    self._add_gap(f"the configuration of {what}", result.error_code, "DescribeConfigs", what)
                    continue
                found[name] = {
                    str(one.name): (str(one.value), _is_set_for_topic(one))
                    for one in result.configs
                    if one.value is not None and not one.is_sensitive
                }
        return found

    def _add_gap(self, what: str, code: int, operation: str, resource: str) -> None:
        if code in NOT_ALLOWED:
            resource = "the cluster" if code == 31 else resource
            self.gaps.append(InventoryGap(what, f"not allowed: {operation} on {resource}", operation, resource))
        else:
            self.gaps.append(InventoryGap(what, error_name(code)))


class NotAllowedError(Exception):
    """The principal of this connection may not see it."""


def raise_for_code(code: int) -> None:
    if code in NOT_ALLOWED:
        raise NotAllowedError
    if code:
        raise UpstreamError("other", error_name(code))


def _is_set_for_topic(one: Any) -> bool:
    source = getattr(one, "config_source", -1)
    # Version 0 says only whether it is a default; what brokers have set is none there.
    return bool(source == _DYNAMIC_TOPIC_CONFIG if source not in (None, -1) else not getattr(one, "is_default", True))


def authorized_operations(answer: Any) -> frozenset[str] | None:
    """What one may do with it (KIP-430)."""
    numbers = getattr(answer, "authorized_operations", None)
    if numbers is None or _OPERATIONS_OMITTED in numbers:
        return None
    return frozenset(name for number, name in OPERATIONS.items() if number in numbers)


def chunks(items: Sequence[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while some := list(islice(iterator, _CHUNK)):
        yield some
