"""Queries that the principal may not be allowed to make: each refusal is recorded, and its result left out."""

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
_OPERATIONS_OMITTED = 31  # the sign bit of the bit field: the response omits the operations


class PermissionAwareQueries:
    """Queries of one cluster; `gaps` collects what the principal may not read and what the brokers do not support."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self.gaps: list[InventoryGap] = []

    def try_query(self, subject: str, ask: Callable[[], T], operation: str, resource: str) -> T | None:
        """Return the result of `ask`; record a gap and return None if it fails."""
        try:
            return ask()
        except NotAllowedError:
            self.gaps.append(InventoryGap(subject, f"not allowed: {operation} on {resource}", operation, resource))
        except UnsupportedRequestError as error:
            self.gaps.append(InventoryGap(subject, f"these brokers do not support {error}"))
        except UpstreamError as error:
            self.gaps.append(InventoryGap(subject, str(error)))
        return None

    def read_configs(
        self, kind: int, names: Iterable[str], node: int | None = None
    ) -> dict[str, dict[str, tuple[str, bool]]]:
        """Return the configurations of each resource, with True for a value that was set for the topic itself."""
        from kafka.protocol.admin import DescribeConfigsRequest as Request

        configs: dict[str, dict[str, tuple[str, bool]]] = {}
        for batch in chunks(list(names)):
            resources = [Request.DescribeConfigsResource(kind, name, None) for name in batch]
            for result in self.admin.ask(Request(resources=resources), node).results:
                name = str(result.resource_name)
                if result.error_code:
                    resource = f"topic {name}" if kind == TOPIC else f"broker {name}"
                    self._add_gap(f"the configuration of {resource}", result.error_code, "DescribeConfigs", resource)
                    continue
                configs[name] = {
                    str(config.name): (str(config.value), _is_set_for_topic(config))
                    for config in result.configs
                    if config.value is not None and not config.is_sensitive
                }
        return configs

    def _add_gap(self, subject: str, code: int, operation: str, resource: str) -> None:
        if code in NOT_ALLOWED:
            resource = "the cluster" if code == 31 else resource
            self.gaps.append(InventoryGap(subject, f"not allowed: {operation} on {resource}", operation, resource))
        else:
            self.gaps.append(InventoryGap(subject, error_name(code)))


class NotAllowedError(Exception):
    """A query that the principal of this connection may not make."""


def raise_for_code(code: int) -> None:
    if code in NOT_ALLOWED:
        raise NotAllowedError
    if code:
        raise UpstreamError("other", error_name(code))


def _is_set_for_topic(config: Any) -> bool:
    source = getattr(config, "config_source", -1)
    # Version 0 says only whether it is a default; what brokers have set is none there.
    return bool(
        source == _DYNAMIC_TOPIC_CONFIG if source not in (None, -1) else not getattr(config, "is_default", True)
    )


def authorized_operations(answer: Any) -> frozenset[str] | None:
    """Return the operations that the principal may perform (KIP-430); None if the response does not contain them."""
    numbers = getattr(answer, "authorized_operations", None)
    if numbers is None or _OPERATIONS_OMITTED in numbers:
        return None
    return frozenset(name for number, name in OPERATIONS.items() if number in numbers)


def chunks(items: Sequence[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk
