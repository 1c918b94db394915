"""Each user who logs in at kproxy has a login of their own at the brokers: their authorizers say who writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ResourceType,
)

from kproxy.dev.devcluster import DevCluster
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection
from kproxy.migrate.switch.fleet import open_fleet
from kproxy.protocol.wire.acls import Right
from kproxy.proxy.switching.userchecks import LoginOutcome, UserCheck, UserCheckRequest
from tests.harness.clients.flow import create_topic
from tests.harness.clusters.twologins import (
    KEYS,
    NAMES,
    OLD,
    SECRETS,
    allow,
    import_users,
    own_login,
    swapping,
    two_logins,
    users,
)
from tests.harness.migration.switched import BLUE, GREEN, TOKEN, Switched
from tests.harness.process import Kproxy, wait_logged, wait_until

pytestmark = pytest.mark.integration

OWN_TOPICS = {"alice": "of-alice", "bob": "of-bob"}


@pytest.fixture(scope="module")
def clusters() -> Iterator[Mapping[str, DevCluster]]:
    """Each user may write to one topic, at blue and at green."""
    with two_logins(reauth_ms=5000) as clusters:
        for name, cluster in clusters.items():
            for user, topic in OWN_TOPICS.items():
                create_topic(cluster.direct_bootstrap, topic, 1)
                allow(cluster, user if name == BLUE else NAMES[user], topic)
        yield clusters


@pytest.fixture(scope="module")
def users_file(clusters: Mapping[str, DevCluster], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The users of blue, imported from its metadata log: no password is typed. carol has no login at green."""
    return import_users(clusters[BLUE], tmp_path_factory.mktemp("users"), *OWN_TOPICS)


def producer(bootstrap: str, user: str) -> Producer:
    """Return a client that knows only the password at the former cluster."""
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": OLD[user]}
    more = {"client.id": f"of-{user}", "message.timeout.ms": 60000, "allow.auto.create.topics": False}
    return Producer({"bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", **login, **more})


def write(client: Producer, topic: str) -> KafkaError | None:
    """Write a record, and return why it was refused; None if it was acknowledged."""
    problems: list[KafkaError | None] = []
    try:
        client.produce(topic, b"x", on_delivery=lambda error, _: problems.append(error))
    except KafkaException as error:  # the client knows already that it may not write there
        return cast(KafkaError, error.args[0])
    assert client.flush(90) == 0
    return problems[0]


def assert_principals(clients: Mapping[str, Producer]) -> None:
    """Check that each user may write to the own topic, and to no other."""
    for user, client in clients.items():
        for owner, topic in OWN_TOPICS.items():
            error = write(client, topic)
            if owner == user:
                assert error is None, error
            else:
                assert error is not None
                assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error


def assert_no_secret(*texts: str) -> None:
    for secret in SECRETS:
        assert not [text for text in texts if secret in text]


def test_a_move_from_logins_at_the_brokers_to_one_at_kproxy_and_back(
    clusters: Mapping[str, DevCluster], users_file: Path, tmp_path: Path
) -> None:
    """At blue, logins pass through, so nothing changes before the move. At green, kproxy swaps them."""
    with swapping(clusters, users_file, tmp_path) as kproxy:
        clients = {user: producer(kproxy.bootstrap, user) for user in OWN_TOPICS}
        assert_principals(clients)
        for number, to in enumerate((GREEN, BLUE, GREEN)):
            kproxy.hold(switch=f"s{number}", to=to)
            kproxy.must("flip", switch=f"s{number}")
            kproxy.must("release", switch=f"s{number}")
            assert_principals(clients)
        carol = producer(kproxy.bootstrap, "carol")
        carol.produce("of-alice", b"x")
        carol.flush(10)
        wait_logged(kproxy, "user carol has no login for green: kproxy users login FILE carol green")
        assert_no_secret(kproxy.log, json.dumps(kproxy.seen()))


def test_before_a_move_kproxy_tries_logins_and_rights(
    clusters: Mapping[str, DevCluster], users_file: Path, tmp_path: Path
) -> None:
    """As each user, and nothing changes by it: a group, an open transaction and the topics stay as they are."""
    green = clusters[GREEN]
    allow(green, NAMES["alice"], "g-alice", ResourceType.GROUP, AclOperation.READ)
    allow(green, NAMES["alice"], "tx-alice", ResourceType.TRANSACTIONAL_ID)
    direct = {"bootstrap.servers": green.direct_bootstrap}
    writer = Producer({**direct, "transactional.id": "tx-alice"})
    writer.init_transactions(60)
    writer.begin_transaction()
    writer.produce("of-alice", b"in a transaction")
    writer.flush(30)
    member = Consumer({**direct, "group.id": "g-alice", "session.timeout.ms": 6000})
    member.subscribe(["of-alice"])
    wait_until(lambda: member.poll(0.5) is not None or member.assignment(), "the group is stable")
    before = generation(green, "g-alice")
    rights = [
        Right("Write", "Topic", "of-alice"), Right("Read", "Topic", "of-alice"), Right("Write", "Topic", "of-bob"),
        Right("Write", "Topic", "no-such"), Right("Read", "Group", "g-alice"), Right("Read", "Group", "g-bob"),
        Right("Write", "TransactionalId", "tx-alice"), Right("Write", "TransactionalId", "tx-bob"),
        Right("Delete", "Group", "g-alice"),
    ]  # fmt: skip
    wanted = (True, False, False, False, True, False, True, False, "kproxy cannot try it")
    with swapping(clusters, users_file, tmp_path) as kproxy:
        checks = try_logins(kproxy, tmp_path, {"alice": rights, "carol": rights[:1]})
        assert checks["alice"] == UserCheck(LoginOutcome.OWN, NAMES["alice"], rights=wanted)
        assert checks["carol"].outcome is LoginOutcome.MISSING
        assert "user carol has no login for green" in checks["carol"].problem
        assert not checks["carol"].rights
        assert try_logins(kproxy, tmp_path, {"alice": rights}, BLUE) == {
            "alice": UserCheck(LoginOutcome.PASSED_THROUGH)
        }
        (wrong := tmp_path / "wrong.yaml").write_text(users_file.read_text())
        wrong.chmod(0o600)
        users("login", wrong, "bob", GREEN, "--username", NAMES["bob"], stdin="not-the-password")
    with swapping(clusters, wrong, tmp_path / "wrong") as kproxy:
        checks = try_logins(kproxy, tmp_path, {"alice": rights[:1], "bob": rights[:1]})
        assert checks["alice"] == UserCheck(LoginOutcome.OWN, NAMES["alice"], rights=(True,))
        assert checks["bob"].outcome is LoginOutcome.REFUSED
        assert "SASL" in checks["bob"].problem
        assert not checks["bob"].rights
        assert_no_secret(kproxy.log, str(checks))
        assert "not-the-password" not in kproxy.log + str(checks)
    assert member.assignment()
    assert generation(green, "g-alice") == before
    member.close()
    writer.commit_transaction(60)  # it is still open
    assert "no-such" not in AdminClient(direct).list_topics(timeout=30).topics


def try_logins(
    kproxy: Switched, tmp_path: Path, rights: Mapping[str, Sequence[Right]], upstream: str = GREEN
) -> dict[str, UserCheck]:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    section = SwitchSection(KproxySelection((kproxy.admin,)), GREEN, token_file=tmp_path / "token")
    with open_fleet(section) as fleet:
        request = UserCheckRequest("default", upstream, {user: tuple(tried) for user, tried in rights.items()})
        return fleet.kproxies[0].check_users(request)


def generation(cluster: DevCluster, group: str) -> list[str]:
    """Return the members of a group: a rebalance gives none another id, but a new member has one."""
    admin = AdminClient({"bootstrap.servers": cluster.direct_bootstrap})
    result = admin.describe_consumer_groups([group])[group].result(30)
    return [str(result.state), *sorted(one.member_id for one in result.members)]


def test_a_command_has_the_logins(
    clusters: Mapping[str, DevCluster], users_file: Path, own_kproxy: Callable[..., Kproxy], tmp_path: Path
) -> None:
    """As Vault prints them. A user without one has that of the default."""
    for name in OWN_TOPICS:
        secret = {"data": {"data": {"username": NAMES[name], "password": KEYS[NAMES[name]]}, "metadata": {}}}
        (tmp_path / f"green-{name}").write_text(json.dumps(secret))
    (tmp_path / "green-carol").write_text("null")
    own = [word for key, value in own_login(tmp_path).items() for word in (f"--{key}", value)]
    proxy = own_kproxy(
        clusters[GREEN].bootstrap, "--client-sasl", "SCRAM-SHA-512", "--users-file", str(users_file), "--name", "prod",
        *own, "--login-as", "user",
        "--credentials-command", f"cat {tmp_path}/green-{{user}}", "--default-login", "bob", "--log-level", "debug",
    )  # fmt: skip
    assert_principals({user: producer(proxy.bootstrap, user) for user in OWN_TOPICS})
    assert write(producer(proxy.bootstrap, "carol"), "of-bob") is None
    # Past the lifetime of the broker's sessions, each user is still the same.
    clients = {user: producer(proxy.bootstrap, user) for user in OWN_TOPICS}
    for _ in range(3):
        assert_principals(clients)
        logged = proxy.log.count("SASL: logged in again")
        wait_until(lambda before=logged: proxy.log.count("SASL: logged in again") > before, "a login again")
    assert_no_secret(proxy.log, *(proxy.get(page)[1] for page in ("/status", "/metrics", "/sessions", "/readyz")))
