"""Sends changes to the target, or asks whether it would accept them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from kproxy.base.errors import UpstreamError
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.inventory import Acl, InventoryGap, QuotaEntity
from kproxy.migrate.copier.state import STATE_PARTITIONS
from kproxy.migrate.plan.changes import AddPartitions, AlterTopic, Change, CreateAcl, CreateState, CreateTopic, SetQuota
from kproxy.protocol.wire.errorcodes import ErrorCode, error_name

# Changes in one request.
BATCH_SIZE = 100
_PATIENCE_MS = 30_000
_TOPIC = 2
_SET, _DELETE = 0, 1
_STATE_TOPIC_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(64 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_MISSING_RIGHTS = {29: "Create on topic {name}", 31: "Create on the cluster"}

ChangeErrors = list[str]
"""For each change the brokers' error text; "" if it was applied."""


class TargetAdmin:
    """Applies changes to the target.

    `replication` is the number of replicas where the file has none and the brokers are too old for a default in the
    request.
    """

    def __init__(self, admin: Admin, replication: int = 1) -> None:
        self.admin = admin
        self._default_replication = -1 if admin.version >= (2, 4) else replication

    def apply(self, changes: Sequence[Change]) -> ChangeErrors:
        """Apply changes of one kind. Raises UpstreamError if the target does not reply."""
        match changes[0]:
            case CreateState() | CreateTopic():
                return self._create(changes)
            case AddPartitions():
                return self._add_partitions(changes)
            case AlterTopic():
                return self.alter_configs(
                    {change.topic: change.after for change in changes if isinstance(change, AlterTopic)}
                )
            case CreateAcl():
                return self._create_acls([change.acl for change in changes if isinstance(change, CreateAcl)])
            case SetQuota():
                return self.set_quotas(
                    {change.entity: change.after for change in changes if isinstance(change, SetQuota)}
                )

    # Topics

    def validate_creations(
        self, creations: Sequence[CreateState | CreateTopic]
    ) -> tuple[dict[str, str], list[InventoryGap]]:
        """Return the topics that the target would refuse to create, with the reason, and the missing rights.

        Creates nothing.
        """
        refused: dict[str, str] = {}
        missing_rights: list[InventoryGap] = []
        for start in range(0, len(creations), BATCH_SIZE):
            batch = creations[start : start + BATCH_SIZE]
            for change, (code, text) in zip(batch, self._send_creations(batch, validate_only=True), strict=True):
                if code in _MISSING_RIGHTS:
                    right = _MISSING_RIGHTS[code].format(name=change.topic)
                    operation, resource = right.split(" on ", 1)
                    missing_rights.append(InventoryGap("to create it", text, operation, resource))
                elif text:
                    refused[change.topic] = text
        return refused, list(dict.fromkeys(missing_rights))

    def _create(self, changes: Sequence[Change]) -> ChangeErrors:
        return [text for _, text in self._send_creations(changes, validate_only=False)]

    def _send_creations(self, changes: Sequence[Change], *, validate_only: bool) -> list[tuple[int, str]]:
        from kafka.protocol.admin import CreateTopicsRequest as Request

        topics = []
        for change in changes:
            partitions, configs = STATE_PARTITIONS, _STATE_TOPIC_CONFIGS
            if isinstance(change, CreateTopic):
                partitions, configs = change.partitions, change.configs
            assert isinstance(change, CreateState | CreateTopic)
            encoded = [Request.CreatableTopic.CreatableTopicConfig(*item) for item in configs.items()]
            replication = change.replication or self._default_replication
            topics.append(Request.CreatableTopic(change.topic, partitions, replication, [], encoded))
        request = Request(topics=topics, timeout_ms=_PATIENCE_MS, validate_only=validate_only)
        results = {result.name: result for result in self.admin.ask_controller(request).topics}
        return [
            (
                results[topic.name].error_code,
                _error_text(results[topic.name], fine=() if validate_only else (ErrorCode.TOPIC_ALREADY_EXISTS,)),
            )
            for topic in topics
        ]

    def _add_partitions(self, changes: Sequence[Change]) -> ChangeErrors:
        from kafka.protocol.admin import CreatePartitionsRequest as Request

        added = [change for change in changes if isinstance(change, AddPartitions)]
        topics = [Request.CreatePartitionsTopic(change.topic, change.after, None) for change in added]
        request = Request(topics=topics, timeout_ms=_PATIENCE_MS, validate_only=False)
        results = {result.name: result for result in self.admin.ask_controller(request).results}
        return [_error_text(results[topic.name]) for topic in topics]

    def alter_configs(self, topics: Mapping[str, Mapping[str, str | None]]) -> ChangeErrors:
        """Set configurations of topics, or remove them (None)."""
        from kafka.protocol.admin import IncrementalAlterConfigsRequest as Request

        def encode(key: str, value: str | None) -> Any:
            return Request.AlterConfigsResource.AlterableConfig(key, _DELETE if value is None else _SET, value)

        resources = [
            Request.AlterConfigsResource(_TOPIC, topic, [encode(*item) for item in configs.items()])
            for topic, configs in topics.items()
            if configs
        ]
        errors: dict[str, str] = {}
        if resources:
            answer = self.admin.ask_controller(Request(resources=resources, validate_only=False))
            errors = {result.resource_name: _error_text(result) for result in answer.responses}
        return [errors.get(topic, "") for topic in topics]

    def delete_topics(self, topics: Sequence[str]) -> ChangeErrors:
        """Delete topics with their records; a topic that does not exist is no error."""
        from kafka.protocol.admin import DeleteTopicsRequest as Request

        request = Request(topic_names=list(topics), timeout_ms=_PATIENCE_MS, max_version=5)
        results = {result.name: result for result in self.admin.ask_controller(request).responses}
        return [_error_text(results[topic], fine=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)) for topic in topics]

    # ACLs and quotas

    def _create_acls(self, acls: Sequence[Acl]) -> ChangeErrors:
        from kafka.protocol.admin import CreateAclsRequest as Request

        creations = [Request.AclCreation(*astuple(acl)) for acl in acls]
        return [_error_text(result) for result in self.admin.ask_controller(Request(creations=creations)).results]

    def delete_acls(self, acls: Sequence[Acl]) -> ChangeErrors:
        """Delete exactly these ACLs."""
        from kafka.protocol.admin import DeleteAclsRequest as Request

        filters = [Request.DeleteAclsFilter(*astuple(acl)) for acl in acls]
        return [_error_text(result) for result in self.admin.ask_controller(Request(filters=filters)).filter_results]

    def set_quotas(self, quotas: Mapping[QuotaEntity, Mapping[str, float | None]]) -> ChangeErrors:
        """Set quotas, or remove them (None)."""
        from kafka.protocol.admin import AlterClientQuotasRequest as Request

        entry = Request.EntryData
        entries = [
            entry(
                [entry.EntityData(*part) for part in entity],
                [entry.OpData(key, value or 0.0, value is None) for key, value in values.items()],
            )
            for entity, values in quotas.items()
        ]
        answer = self.admin.ask_controller(Request(entries=entries, validate_only=False))
        return [_error_text(result) for result in answer.entries]

    # Rights that cannot be seen

    def check_transactional_id(self, name: str) -> list[InventoryGap]:
        """Return the missing right if the principal may not describe this transactional id (Write implies Describe)."""
        from kafka.protocol.metadata import FindCoordinatorRequest

        answer = self.admin.ask(FindCoordinatorRequest(key=name, key_type=1, max_version=3))
        if answer.error_code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return []
        return [InventoryGap("to copy in transactions", "", "Write", f"TransactionalId {name}")]


def _error_text(answer: Any, fine: Iterable[int] = ()) -> str:
    if not answer.error_code or answer.error_code in fine:
        return ""
    name = error_name(answer.error_code)
    message = getattr(answer, "error_message", None)
    return f"{name}: {message}" if message else name


def raise_first_error(answers: ChangeErrors, action: str) -> None:
    """Raise UpstreamError with the first error, if there is one."""
    failed = [answer for answer in answers if answer]
    if failed:
        raise UpstreamError("other", f"{action}: {failed[0]}")
