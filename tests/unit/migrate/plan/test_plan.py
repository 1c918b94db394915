"""What a plan says of two clusters: each row of what cannot be kept, what is done, and which rights are missing."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from kproxy.migrate.clusters.inventory import (
    Acl,
    BrokerInventory,
    GroupInventory,
    Inventory,
    InventoryGap,
    PartitionInventory,
    TopicInventory,
)
from kproxy.migrate.plan.changes import CreateState, MigrationHistory
from kproxy.migrate.plan.display import show_plan
from kproxy.migrate.plan.plan import MigrationPlan, plan_to_json
from kproxy.migrate.plan.principals import users_with_rights
from kproxy.migrate.plan.rules import principal
from kproxy.migrate.spec.migration import CopyLimits, GroupSelection, Migration, TopicSelection, WaveSelection
from kproxy.migrate.usage.observed import KproxyCoverage, ObservedUsage
from kproxy.migrate.usage.replies import RecordedClient
from kproxy.migrate.usage.sourcestate import SourceChange, Writing

FOREVER = "9223372036854775807"
DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": FOREVER,
    "message.timestamp.before.max.ms": FOREVER,
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
}
MIGRATION = Migration({"bootstrap-servers": ["a"]}, {"bootstrap-servers": ["b"]})
ALLOWED = frozenset({"Read", "Write", "Alter", "AlterConfigs", "Describe", "DescribeConfigs", "Create"})


def topic(name: str = "t", records: int = 0, partitions: int = 1, size: int = 0, **configs: str) -> TopicInventory:
    given = {key.replace("_", "."): value for key, value in configs.items()}
    effective = {key: value for key, value in {**DEFAULTS, **given}.items() if key != "segment.bytes"}
    parts = tuple(PartitionInventory(0, records, size) for _ in range(partitions))
    return TopicInventory(name, parts, given, effective, ALLOWED)


def cluster(*topics: TopicInventory, **more: object) -> Inventory:
    brokers = (BrokerInventory(1, {"message.max.bytes": "1048588", "default.replication.factor": "1"}),)
    plain = Inventory(
        "id", (4, 3), brokers, {one.name: one for one in topics}, {}, (), {}, {}, ALLOWED, DEFAULTS, has_authorizer=True
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def plan(source: Inventory, target: Inventory, migration: Migration = MIGRATION, **more: object) -> MigrationPlan:
    past = more.pop("history", MigrationHistory(has_state_topic=True))
    return MigrationPlan(migration, source, target, past, **more)  # type: ignore[arg-type]


def said(made: MigrationPlan, severity: str) -> list[str]:
    findings = (one for one in made.findings if one.severity == severity and one.subject != "transactional ids")
    return [f"{one.subject}: {one.text}" for one in findings]


def test_waves_of_an_observation_are_shown_and_checked() -> None:
    uses = {("writes", "t"): 2.0}
    client = RecordedClient("", "", "h", "shop", "java", 1.0, 2.0, uses)
    usage = ObservedUsage(1.0, 2.0, (client,), kproxies=(KproxyCoverage("kp-1", problem="refused"),))
    migration = replace(MIGRATION, waves={"a": WaveSelection(("shop",))})
    made = plan(cluster(topic()), cluster(topic()), migration, usage=usage)
    assert [wave["topics"] for wave in plan_to_json(made)["waves"]] == [["t"]]
    warnings = said(made, "warning")
    assert any(line.startswith("wave a: client shop is connected to topic t, which is in no wave") for line in warnings)
    assert any(line.startswith("kproxy kp-1: was not observed") for line in warnings)
    out = StringIO()
    show_plan(made, Console(file=out, width=100))
    assert "client shop: writes t" in out.getvalue()
    assert plan_to_json(plan(cluster(topic()), cluster(topic())))["waves"] is None


def test_a_producer_that_goes_round_the_kproxies_is_a_warning() -> None:
    """The plan warns for the topics that are copied; only the switch stops."""
    writings = tuple(Writing(name, 0, 7, 1, -1, 3) for name in ("t", "left-out"))
    usage = ObservedUsage(
        1.0, 2.0, (), kproxies=(KproxyCoverage("kp-1", 1.0, 2.0),), source=SourceChange(1.0, 2.0, {}, writings=writings)
    )
    made = plan(cluster(topic()), cluster(topic()), replace(MIGRATION, topics=TopicSelection(("t",))), usage=usage)
    (text,) = (line for line in said(made, "warning") if "goes round" in line)
    assert text.startswith("topic t: a producer goes round the kproxies: partition 0: producer id 7, epoch 1")
    assert not made.is_blocked


def test_each_wave_has_an_estimate_of_its_own() -> None:
    usage = ObservedUsage(
        1.0,
        2.0,
        tuple(
            RecordedClient("", "", "h", f"app-{name}", "java", 1.0, 2.0, {("writes", name): 2.0})
            for name in ("large", "small", "left-out")
        ),
        kproxies=(KproxyCoverage("kp-1", 1.0, 2.0),),
    )
    topics = (topic("large", 1000, 10, 100_000_000_000), topic("small", 10, 1, 1000))
    made = plan(cluster(*topics), cluster(*topics), usage=usage)
    sizes = {wave["topics"][0]: wave["estimate"]["bytes"] for wave in plan_to_json(made)["waves"]}
    assert sizes == {"large": 10**12, "small": 1000, "left-out": 0}
    assert plan_to_json(made)["estimate"]["bytes"] == 10**12 + 1000
    out = StringIO()
    show_plan(made, Console(file=out, width=120))
    shown = out.getvalue()
    assert re.search(r"wave \d: 1 TB in 10 partitions; with \d executors?, copy and verification take about", shown)
    assert re.search(r"wave \d: 1 kB in 1 partition; with 1 executor, copy and verification take less than", shown)
    assert re.search(r"wave \d: nothing of it is copied", shown)


def done(made: MigrationPlan) -> list[str]:
    return [str(change) for change in made.changes]


NEW = "create topic t: 1 partition, the brokers' number of replicas"
HELD = "retention.ms=-1 (then default)"


# What is done


@pytest.mark.parametrize(
    ("source", "target", "changes"),
    [
        (topic(), {}, [f"{NEW}; until the switch {HELD}"]),
        (topic(retention_ms="1000"), {}, [f"{NEW}; until the switch retention.ms=-1 (then 1000)"]),
        (topic(retention_ms="-1"), {}, [f"{NEW}; retention.ms=-1"]),
        (topic(segment_bytes="5"), {}, [f"{NEW}; segment.bytes=5; until the switch {HELD}"]),
        (topic(cleanup_policy="compact"), {}, [f"{NEW}; until the switch cleanup.policy=delete (then compact), {HELD}"]),
        (topic(compression_type="gzip"), {}, [f"{NEW}; until the switch compression.type=producer (then gzip), {HELD}"]),
        (
            topic(message_timestamp_type="LogAppendTime"), {},
            [f"{NEW}; until the switch message.timestamp.type=CreateTime (then LogAppendTime), {HELD}"],
        ),
        (
            topic(message_timestamp_before_max_ms="5"), {},
            [f"{NEW}; until the switch message.timestamp.before.max.ms=unlimited (then 5), {HELD}"],
        ),
        (topic(max_message_bytes="2000000"), {}, [f"{NEW}; max.message.bytes=2000000; until the switch {HELD}"]),
        # of the source's brokers only
        (topic(follower_replication_throttled_replicas="0:1", remote_storage_enable="false"), {}, [f"{NEW}; until the switch {HELD}"]),
        (topic(no_such_thing="1"), {}, [f"{NEW}; until the switch {HELD}"]),
        (topic(partitions=3), {}, [f"create topic t: 3 partitions, the brokers' number of replicas; until the switch {HELD}"]),
        # there already
        (topic(), topic(retention_ms="-1"), []),
        (topic(), topic(), [f"alter topic t; until the switch {HELD}"]),
        (topic(retention_ms="1000"), topic(retention_ms="2000"), ["alter topic t; until the switch retention.ms=-1 (then 2000)"]),
        (topic(max_message_bytes="2000000"), topic(retention_ms="-1"), ["alter topic t; until the switch max.message.bytes=2000000 (then default)"]),
        (topic(), topic(retention_ms="-1", max_message_bytes="2000000"), []),
        (topic(), topic(retention_ms="-1", compression_type="lz4"), ["alter topic t; until the switch compression.type=producer (then lz4)"]),
        (topic(partitions=2), topic(retention_ms="-1"), ["add partitions to topic t: 1 to 2"]),
        (topic(), topic(retention_ms="-1", partitions=2), []),
    ],
)  # fmt: skip
def test_topics(source: TopicInventory, target: TopicInventory | dict[str, str], changes: list[str]) -> None:
    there = [target] if isinstance(target, TopicInventory) else []
    assert done(plan(cluster(source), cluster(*there))) == changes


def test_defaults_of_the_brokers_count_where_they_matter() -> None:
    source = replace(topic(), effective_configs={**DEFAULTS, "retention.ms": "5", "max.message.bytes": "2000000"})
    assert done(plan(cluster(source), cluster())) == [
        f"{NEW}; max.message.bytes=2000000; until the switch retention.ms=-1 (then 5)"
    ]


def test_bounds_of_old_brokers_have_other_names_now() -> None:
    source = topic(message_timestamp_difference_max_ms="7")
    (change,) = done(plan(cluster(source), cluster()))
    assert "message.timestamp.difference" not in change
    assert (
        "message.timestamp.after.max.ms=unlimited (then 7), message.timestamp.before.max.ms=unlimited (then 7)"
        in change
    )


def test_the_document_has_the_last_word() -> None:
    topics = TopicSelection(rename={"t": "u"}, replication=3, configs={"segment.bytes": "9", "retention.ms": "10"})
    made = plan(cluster(topic(segment_bytes="5")), cluster(), replace(MIGRATION, topics=topics))
    assert done(made) == [
        "create topic u: 1 partition, 3 replicas; segment.bytes=9; until the switch retention.ms=-1 (then 10)"
    ]


def test_the_state_topic_is_first() -> None:
    assert plan(cluster(topic()), cluster(), history=MigrationHistory()).changes[0] == CreateState(
        "kproxy-migration-migration"
    )


def test_a_second_time_there_is_nothing_to_do() -> None:
    source = topic(retention_ms="1000", compression_type="gzip")
    held = topic(retention_ms="-1", compression_type="producer")
    wanted = {"t": {"retention.ms": "1000", "compression.type": "gzip"}}
    created = MigrationHistory(wanted, created_topics=frozenset({"t"}), has_state_topic=True)
    assert done(plan(cluster(source), cluster(held), history=created)) == []
    was_there = MigrationHistory({"t": {"retention.ms": "5"}}, has_state_topic=True)
    assert done(plan(cluster(source), cluster(held), history=was_there)) == []


def test_what_the_source_has_changed_since_is_noted() -> None:
    created = MigrationHistory({"t": {"retention.ms": "1000"}}, created_topics=frozenset({"t"}), has_state_topic=True)
    made = plan(cluster(topic(retention_ms="2000")), cluster(topic(retention_ms="-1")), history=created)
    assert done(made) == ["record for topic t; until the switch retention.ms (then 2000)"]


def acl(resource: int, name: str, pattern: int = 3, operation: int = 3) -> Acl:
    return Acl(resource, name, pattern, "User:u", "*", operation, 3)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (acl(2, "t"), ["User:u may Read Topic new-t"]),
        (acl(2, "other"), []),
        (acl(2, "*"), ["User:u may Read Topic *"]),
        (acl(2, "s", 4), ["User:u may Read Topic s… (prefix)"]),
        (acl(2, "t", 4), ["User:u may Read Topic new-t", "User:u may Read Topic tt"]),  # a name that is another now
        (acl(2, "x", 4), []),
        (acl(3, "g"), ["User:u may Read Group g"]),
        (acl(3, "h"), []),
        (acl(3, "h", 4), ["User:u may Read Group h… (prefix)"]),
        (acl(5, "tx", operation=4), ["User:u may Write TransactionalId tx"]),
        (acl(4, "kafka-cluster", operation=12), []),  # IdempotentWrite: whoever may write to a topic may do that
        (acl(4, "kafka-cluster", operation=7), []),
    ],
)
def test_acls(given: Acl, wanted: list[str]) -> None:
    migration = replace(
        MIGRATION, topics=TopicSelection(("s", "t", "tt"), rename={"t": "new-t"}), groups=GroupSelection(("g",))
    )
    topics = [topic(name) for name in ("s", "t", "tt", "other")]
    made = plan(cluster(*topics, acls=(given,)), cluster(), migration)
    assert [text for text in done(made) if "ACL" in text] == [f"create ACL: {text}" for text in wanted]
    there = plan(cluster(*topics, acls=(given,)), cluster(acls=(given,)), replace(migration, topics=TopicSelection()))
    assert not any("ACL" in text for text in done(there))
    assert not any(
        "ACL" in text for text in done(plan(cluster(*topics, acls=(given,)), cluster(), replace(migration, acls=False)))
    )


def test_users_of_old_brokers_are_told_who_produces_idempotently() -> None:
    writer = acl(4, "kafka-cluster", operation=12)
    denied = replace(writer, principal="User:d", permission=2)
    source = cluster(topic(), acls=(writer, denied, acl(2, "t", operation=4)))
    old, new = (said(plan(source, cluster(version=version)), "warning") for version in ((2, 7), (2, 8)))
    assert old == [
        "ACLs: the target's brokers require IdempotentWrite on the cluster from idempotent producers, a right of User:u"
        " on the source: create it on the target for those that write to these topics"
    ]
    assert new == []
    assert said(plan(source, cluster(version=(2, 7)), replace(MIGRATION, acls=False)), "warning") == []
    assert any(
        "rights over the cluster itself are not copied: 2 rules, such as: User:u may Idem" in one
        for one in said(plan(source, cluster()), "note")
    )


def test_quotas() -> None:
    alice, every, address = (("user", "alice"),), (("client-id", None),), (("ip", "10.0.0.1"),)
    source = cluster(
        topic(retention_ms="-1"), quotas={alice: {"a": 1.0, "b": 1048576.0}, every: {"a": 3.0}, address: {"c": 4.0}}
    )
    target = cluster(topic(retention_ms="-1"), quotas={alice: {"a": 5.0}, every: {"a": 3.0}})
    made = plan(source, target)
    assert done(made) == ["set quota of user alice: b=1048576"]
    assert said(made, "warning") == [
        "quota of user alice: a is 1 on the source and 5 on the target: the target's value stays"
    ]
    assert done(plan(source, target, replace(MIGRATION, quotas=False))) == []


# Users with other names


RENAMED = replace(MIGRATION, users={"alice": "sa-1", "bob": "sa-2", "carol": "sa-2", "CN=x:y,O=z": "sa-3"})


@pytest.mark.parametrize(
    ("principal", "wanted"),
    [
        ("User:alice", "User:sa-1"),
        ("User:dave", "User:dave"),
        ("User:*", "User:*"),  # each user
        ("Group:alice", "Group:alice"),  # of a custom authorizer
        ("User:CN=x:y,O=z", "User:sa-3"),
        ("User:Alice", "User:Alice"),
        ("User:", "User:"),
        ("alice", "alice"),
    ],
)
def test_the_principals_of_acls_get_other_names(principal: str, wanted: str) -> None:
    given = replace(acl(3, "g"), principal=principal)
    assert done(plan(cluster(topic(retention_ms="-1"), acls=(given,)), cluster(topic(retention_ms="-1")), RENAMED)) == [
        f"create ACL: {wanted} may Read Group g"
    ]


def test_users_may_exchange_their_names() -> None:
    migration = replace(MIGRATION, users={"a": "b", "b": "a"})
    given = tuple(replace(acl(3, f"of-{name}"), principal=f"User:{name}") for name in "ab")
    made = plan(cluster(topic(retention_ms="-1"), acls=given), cluster(topic(retention_ms="-1")), migration)
    assert done(made) == [
        "create ACL: User:b may Read Group of-a",
        "create ACL: User:a may Read Group of-b",
    ]
    assert said(made, "warning") == []


def test_two_users_that_become_one() -> None:
    """The target knows one user: rights and quotas are shared, and quotas that differ are not copied."""
    bob, carol = ((("user", name), ("client-id", "c")) for name in ("bob", "carol"))
    read, write = acl(3, "g"), acl(3, "h")
    source = cluster(
        topic(retention_ms="-1"),
        acls=(replace(read, principal="User:bob"), replace(write, principal="User:carol"), replace(write, principal="User:bob")),
        quotas={tuple(sorted(bob)): {"a": 1.0, "b": 5.0, "c": 7.0}, tuple(sorted(carol)): {"a": 2.0, "b": 5.0, "c": 8.0}},
    )  # fmt: skip
    made = plan(
        source,
        cluster(topic(retention_ms="-1"), quotas={tuple(sorted((("user", "sa-2"), ("client-id", "c")))): {"c": 8.0}}),
        RENAMED,
    )
    assert done(made) == [
        "create ACL: User:sa-2 may Read Group g",
        "create ACL: User:sa-2 may Read Group h",
        "set quota of client-id c, user sa-2: b=5",
    ]
    assert said(made, "warning") == [
        "users: bob and carol all become sa-2 on the target: each gets the rights of all, a rule that denies one of them"
        " something denies it to all, they share quotas, and the target's logs cannot tell them apart; allowed: a name"
        " of its own for each",
        "quota of client-id c, user sa-2: c is 7 on the source and 8 on the target: the target's value stays",
        "quota of client-id c, user sa-2: a is 1 and 2 for users of the source that become this one: it is not copied;"
        " set it on the target",
    ]


def test_a_user_that_becomes_one_which_the_source_has_too() -> None:
    given = (replace(acl(3, "g"), principal="User:a"), replace(acl(3, "h"), principal="User:b"))
    made = plan(cluster(topic(), acls=given), cluster(), replace(MIGRATION, users={"a": "b"}))
    assert ["a and b all become b" in text for text in said(made, "warning")] == [True]


def test_the_target_has_other_acls_of_a_user() -> None:
    given = (replace(acl(2, "t"), principal="User:alice"), replace(acl(3, "g"), principal="User:dave"))
    there = (
        replace(acl(2, "t"), principal="User:sa-1"),  # of alice
        replace(acl(3, "other"), principal="User:sa-1"),
        replace(acl(3, "other"), principal="User:dave"),  # has the same name
    )
    made = plan(cluster(topic(), acls=given), cluster(acls=there), RENAMED)
    text = "user sa-1: has 1 ACL on the target that the source does not have, such as: User:sa-1 may Read Group other"
    assert f"{text}. prepare leaves them" in said(made, "note")
    denied = replace(there[1], permission=2)
    made = plan(cluster(topic(), acls=given), cluster(acls=(*there, denied)), RENAMED)
    text = "has 2 ACLs on the target that the source does not have, such as: User:sa-1 may not Read Group other"
    assert f"user sa-1: {text}. prepare leaves them" in said(made, "warning")


def test_names_in_the_file_that_the_source_does_not_know() -> None:
    source = cluster(topic(), users={"bob": (), "CN=x:y,O=z": ()}, quotas={(("user", "carol"),): {"a": 1.0}})
    assert said(plan(source, cluster(), RENAMED), "note") == [
        "users: no ACL, quota or SCRAM password on the source is of alice; names are case-sensitive"
    ]
    assert said(plan(replace(source, acls=None), cluster(), RENAMED), "note") == []


def test_passwords_of_a_user_with_another_name() -> None:
    """It may log in with another mechanism there: only a login shows whether it exists."""
    source = cluster(topic(), users={"alice": (("SCRAM-SHA-512", 4096),)})
    assert said(plan(source, cluster(), replace(MIGRATION, users={"alice": "sa-1"})), "warning") == []


def test_users_with_rights_and_what_they_have() -> None:
    acls = tuple(
        replace(acl(3, f"g{n}"), principal=name) for n, name in enumerate(("User:a", "User:a", "User:*", "Group:b"))
    )
    quotas = {
        (("user", "a"),): {"x": 1.0},
        (("user", None),): {"x": 1.0},
        (("client-id", "c"), ("user", "d")): {"x": 1.0},
    }
    assert users_with_rights(cluster(acls=acls, quotas=quotas)) == {"a": ["2 ACLs", "1 quota"], "d": ["1 quota"]}


# What is found


ROWS: list[tuple[TopicInventory, TopicInventory | None, str, str]] = [
    (topic(), topic(message_timestamp_type="LogAppendTime"), "note", "t: has LogAppendTime on the target, which would replace timestamps: it has CreateTime until the switch"),
    (topic(message_timestamp_type="LogAppendTime"), None, "note", "t: has LogAppendTime on the source: the timestamps are kept, and are of type CreateTime on the target"),
    (topic(), topic(message_timestamp_after_max_ms="3600000"), "note", "t: refuses timestamps on the target (message.timestamp.after.max.ms=3600000): these bounds are open until the switch"),
    (topic(compression_type="gzip"), None, "note", "t: has compression.type=gzip on the source: batches are copied as they are, and the target does not compress them again before the switch"),
    (topic(max_message_bytes="2000000"), topic(), "note", "t: takes batches of 2000000 bytes on the source and 1048588 on the target: raised there"),
    (topic(max_message_bytes="2000000"), None, "note", "t: takes batches of 2000000 bytes on the source, the target's brokers 1048588: max.message.bytes is set for the topic. Consumers may need a larger fetch size"),
    (topic(), topic(cleanup_policy="compact"), "warning", "t: is compacted on the target and not on the source: records without a key cannot be kept there. It is not compacted before the switch; then compaction removes them"),
    (topic(cleanup_policy="compact,delete"), None, "note", "t: is compacted on the source, and on the target from the switch on: until then it needs the space of all records that are copied. Compaction keeps offsets"),
    (topic(remote_storage_enable="true"), None, "warning", "t: is in remote storage on the source, which the sizes do not count; remote.storage.enable is not kept"),
    (topic(), topic(partitions=3), "warning", "t: has 3 partitions on the target and 1 on the source: after the switch, producers choose other partitions for the same keys, and the order of records with one key is not kept"),
    (topic(), topic(records=5), "error", "t: has 5 offsets on the target that this migration has not written; allowed: an empty topic, another rename, or exclude"),
    (replace(topic(), partitions=(PartitionInventory(None, None),)), None, "error", "t: partition 0 has no leader on the source: repair it first"),
    (topic(min_insync_replicas="2"), None, "error", "t: would have 1 replica and min.insync.replicas=2: no record could be written; allowed: topics.replication, topics.configs"),
    (replace(topic(), operations=frozenset({"Describe"})), None, "error", "right on the source: User:ANONYMOUS is not allowed Read on topic t"),
    (topic(), replace(topic(), operations=ALLOWED - {"Write"}), "error", "right on the target: User:ANONYMOUS is not allowed Write on topic t"),
    (topic(), replace(topic(), operations=ALLOWED - {"AlterConfigs"}), "error", "right on the target: User:ANONYMOUS is not allowed AlterConfigs on topic t"),
    (topic(partitions=2), replace(topic(retention_ms="-1"), operations=ALLOWED - {"Alter"}), "error", "right on the target: User:ANONYMOUS is not allowed Alter on topic t"),
    (topic(), replace(topic(), effective_configs={}), "error", "right on the target: User:ANONYMOUS is not allowed DescribeConfigs on topic t, needed to hold its retention open"),
    (replace(topic(), effective_configs={}), None, "warning", "t: its configurations cannot be read on the source: the target's defaults apply"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "severity", "text"), ROWS)
def test_findings(source: TopicInventory, target: TopicInventory | None, severity: str, text: str) -> None:
    made = plan(cluster(source), cluster(*([] if target is None else [target])))
    assert text in said(made, severity)
    assert made.is_blocked == (severity == "error")


def test_the_controller_says_how_many_replicas_a_new_topic_has() -> None:
    """What is set on a broker does not count where controllers are processes of their own."""
    source, brokers = (
        cluster(topic(min_insync_replicas="2")),
        tuple(BrokerInventory(one, {"default.replication.factor": "1"}) for one in (1, 2, 3)),
    )
    assert plan(source, cluster(brokers=brokers)).is_blocked
    assert not plan(source, cluster(brokers=brokers, replication=3)).is_blocked
    assert "t: would have 3 replicas, and the target has 1 broker; allowed: topics.replication: 1" in said(
        plan(source, cluster(replication=3)), "error"
    )


def test_nothing_is_found_without_a_reason() -> None:
    made = plan(cluster(topic()), cluster(topic()))
    assert said(made, "error") == said(made, "warning") == said(made, "note") == []


def test_records_that_were_copied_are_no_hindrance() -> None:
    made = plan(
        cluster(topic()),
        cluster(topic(records=5)),
        history=MigrationHistory(copied_topics=frozenset({"t"}), has_state_topic=True),
    )
    assert not made.is_blocked


def test_topics_that_cannot_be() -> None:
    assert said(plan(cluster(), cluster()), "error") == [
        "topics.include: no topic of the source is selected, or the right Describe on all of them is missing; allowed: other globs"
    ]
    named = replace(MIGRATION, topics=TopicSelection(("t", "absent")))
    assert said(plan(cluster(topic()), cluster(), named), "warning") == [
        "topics.include: absent is no topic of the source, or Describe on it is missing"
    ]
    renamed = replace(MIGRATION, topics=TopicSelection(rename={"a": "b"}))
    assert said(plan(cluster(topic("a"), topic("b")), cluster(), renamed), "error") == [
        "topics.rename: a and b would all be b on the target; allowed: exclude, or another rename"
    ]
    assert said(plan(cluster(topic()), cluster(), refused_topics={"t": "POLICY_VIOLATION: no"}), "error") == [
        "t: the target would refuse to create it: POLICY_VIOLATION: no"
    ]
    three = replace(MIGRATION, topics=TopicSelection(replication=3))
    assert said(plan(cluster(topic()), cluster(), three), "error") == [
        "t: would have 3 replicas, and the target has 1 broker; allowed: topics.replication: 1"
    ]
    old = cluster(topic(), version=(0, 10))
    assert said(plan(old, cluster()), "error") == ["source: is Kafka 0.10; allowed: 0.11 or later"]


def test_rights_of_the_cluster() -> None:
    few = frozenset({"Create"})
    source = cluster(topic(), acls=(acl(2, "t"),), quotas={(("user", "u"),): {"a": 1.0}})
    migration = replace(MIGRATION, target={"sasl-username": "mover"})
    unseen = (
        InventoryGap("the groups", "not allowed", "Describe", "the cluster"),
        InventoryGap("the quotas", "too old"),
    )
    missing = [InventoryGap("to create it", "", "Create", "topic t")]
    made = plan(source, cluster(operations=few, gaps=unseen), migration, missing_rights=missing)
    assert said(made, "error") == [
        "right on the target: User:mover is not allowed Alter on the cluster",
        "right on the target: User:mover is not allowed AlterConfigs on the cluster",
        "right on the target: User:mover is not allowed Create on topic t, needed to create it",
    ]
    text = "right on the target: User:mover is not allowed Describe on the cluster, needed to read the groups"
    assert said(made, "warning") == [text]
    assert said(made, "note") == [
        "right on the target: brokers leave out topics and groups that this user may not describe",
        "target: the quotas: could not be read: too old",
    ]


def test_who_one_is() -> None:
    assert principal({"sasl-username": "u", "tls-cert": "c.pem"}) == "User:u"
    assert principal({"sasl": "GSSAPI"}) == "the user of sasl GSSAPI"
    assert principal({"tls-cert": "c.pem"}) == "the user of tls-cert c.pem"
    assert principal({}) == "User:ANONYMOUS"


def test_users_groups_and_acls() -> None:
    source = cluster(
        topic(),
        users={"u": (("SCRAM-SHA-256", 4096), ("SCRAM-SHA-512", 4096)), "v": (("SCRAM-SHA-256", 1),)},
        groups={"g": GroupInventory("g", "classic", "Empty"), "s": GroupInventory("s", "share", "Empty"), "x": GroupInventory("x", "classic", "Empty")},
        acls=(acl(4, "kafka-cluster", operation=7), acl(2, "t")),
    )  # fmt: skip
    target = cluster(
        users={"u": (("SCRAM-SHA-256", 4096),), "v": (("SCRAM-SHA-256", 1),)},
        groups={"g": GroupInventory("g", "classic", "Stable"), "x": GroupInventory("x", "classic", "Stable")},
        has_authorizer=False,
    )
    made = plan(source, target, replace(MIGRATION, groups=GroupSelection(exclude=("x",))))
    assert said(made, "warning") == [
        "user u: is missing on the target (SCRAM-SHA-512), and Kafka does not return passwords: create it there with"
        " kafka-configs --alter --entity-type users",
        "ACLs: the target has no authorizer: the source's ACLs cannot be created there; allowed: acls: false",
        "group g: is in use on the target: positions can only be written to groups without members",
    ]
    assert said(made, "note") == [
        "ACLs: rights over the cluster itself are not copied: 1 rule, such as: User:u may Alter Cluster kafka-cluster",
        "group s: is a share group: 'kproxy migrate offsets' shows which positions are kept",
    ]
    assert not any("ACL" in text for text in done(made))


# Time


GB = 1_000_000_000


def large(hours: float, rate: float = 0.0, **configs: str) -> TopicInventory:
    """A topic that takes so long with the executors that are advised, one of them, at 114 MB/s."""
    size = int(hours * 3600 * 4 / 35 * GB / 4)
    return replace(topic(records=size // 1000, partitions=4, size=size, **configs), rate=rate)


@pytest.mark.parametrize(
    ("source", "severity", "text"),
    [
        (large(2, retention_ms="3600000"), "error", "t: keeps records for 60 min on the source (retention.ms=3600000), and the copy takes about 2 h"),
        (large(2, retention_ms="14400000"), "warning", "t: keeps records for 4 h on the source (retention.ms=14400000), and the copy takes about 2 h"),
        (large(2, retention_ms="86400000"), "", ""),
        (large(2, retention_ms="3600000", cleanup_policy="compact"), "", ""),
        (large(2, retention_ms="-1"), "", ""),
        (large(2, rate=50_000, retention_ms="-1", retention_bytes=str(36 * GB)), "error", "t: keeps records for 48 min on the source (retention.bytes=36000000000), and the copy takes about 3.6 h"),
    ],
)  # fmt: skip
def test_retention_that_overtakes_the_copy(source: TopicInventory, severity: str, text: str) -> None:
    made = plan(cluster(source), cluster())
    found = [one for one in (*said(made, "error"), *said(made, "warning")) if "keeps records" in one]
    assert found == ([f"{text}: records could be deleted before they are copied; allowed: a higher"
                      f" {'retention.bytes' if 'bytes' in text else 'retention.ms'} on the source until the switch"] if text else [])  # fmt: skip
    assert not text or found[0] in said(made, severity)


def test_estimate() -> None:
    whole = plan(cluster(large(16), replace(large(4), name="u")), cluster()).estimate
    assert whole.size is not None
    assert whole.cpu_seconds == pytest.approx(whole.size / GB * 35)
    assert dict(whole.seconds_by_executors)[1] == pytest.approx(20 * 3600, rel=0.01)
    assert dict(whole.seconds_by_executors)[2] == pytest.approx(10 * 3600, rel=0.01)
    assert whole.advised_executors == 2  # more have no partitions to work on
    assert (
        plan(cluster(replace(topic(), partitions=(PartitionInventory(0, 1, None),))), cluster()).estimate.size is None
    )


def test_a_rate_that_never_catches_up() -> None:
    source = cluster(large(1, rate=2_000))  # of records of 1 KB
    made = plan(source, cluster(), replace(MIGRATION, limits=CopyLimits(max_rate=1.5)))
    assert said(made, "error")[0] == (
        "limits.max-rate: 1.5 MB/s is less than what is written on the source (2.0 MB/s): the copy would never catch"
        " up; allowed: a higher rate"
    )
    assert made.estimate.seconds_by_executors == ((1, None),)
    assert not plan(source, cluster(), replace(MIGRATION, limits=CopyLimits(max_rate=300))).is_blocked


def test_the_largest_partition_bounds_it() -> None:
    parts = (PartitionInventory(0, 1, 3600 * GB // 5), *(PartitionInventory(0, 0, 0),) * 511)
    whole = plan(cluster(TopicInventory("t", parts, {}, DEFAULTS, ALLOWED)), cluster()).estimate
    assert dict(whole.seconds_by_executors)[128] == pytest.approx(3600)


# For people and programs


def test_shown_in_80_columns() -> None:
    out = StringIO()
    source = cluster(
        topic("a" * 120, records=10**12, size=10**15, retention_ms="1"), topic("b", cleanup_policy="compact")
    )
    made = plan(
        source, cluster(), replace(MIGRATION, topics=TopicSelection(rename={"b": "c"})), history=MigrationHistory()
    )
    show_plan(made, Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    assert max(len(line) for line in lines if not line.startswith(("error: ", "note: "))) <= 80
    text = " ".join(" ".join(lines).split())
    for part in (
        "error: a",
        "note: b: is compacted on the source",
        "1000 TB",
        "c (new)",
        "offsets",
        "Offsets: an upper bound of the records",
        "'kproxy migrate prepare' would make 3 changes",
        "Nothing was changed.",
    ):
        assert part in text


def test_as_json() -> None:
    found = plan_to_json(plan(cluster(topic(records=3, size=9)), cluster()))
    assert found["can-go-on"] is True
    assert found["topics"] == [
        {"topic": "t", "target": "t", "partitions": 1, "target_partitions": None, "offsets": 3, "size": 9, "rate": None}
    ]
    assert found["changes"] == [{"kind": "topic", "text": f"{NEW}; until the switch {HELD}"}]
    assert {one["severity"] for one in found["findings"]} == {"note"}
    assert found["estimate"]["executors"][0]["executors"] == 1
