"""Some clients of a cluster are switched, and all others stay: a real kproxy, two real clusters, real load."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from kproxy.dev.devcluster import DEFAULT_VERSION
from kproxy.dev.devcluster.tools import Programs
from kproxy.migrate.clusters.administration import Admin
from kproxy.migrate.clusters.groups import read_members, read_occupied_groups
from tests.harness.clients.flow import Flow, create_topic
from tests.harness.clients.going import java
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.carried import Numbers, carry, in_log, positions
from tests.harness.migration.switched import BLUE, GREEN, Switched
from tests.harness.process import wait_until
from tests.harness.tls import Authority
from tests.harness.topics import unique

pytestmark = pytest.mark.integration

PARTITIONS = 2
Start = Callable[..., Switched]


def flow_of(sides: TwoSides, kproxy: Switched, who: str, **settings: object) -> Flow:
    """A producer and a consumer that call themselves so, with a topic of their own on both sides."""
    topic = unique(who)
    for bootstrap in (sides.source, sides.target):
        create_topic(bootstrap, topic, PARTITIONS)
    given = {"auto.commit.interval.ms": 200, "client.id": who, **settings}
    flow = Flow(kproxy.bootstrap, topic, PARTITIONS, **given)
    flow.log = Numbers(contiguous=True)
    return flow


def switch(sides: TwoSides, kproxy: Switched, flow: Flow, unit: str) -> None:
    """The flow's group has committed: hold, the last copy, flip, release."""
    mine, group = sides.migration(), f"{flow.topic}-readers"
    wait_until(lambda: len(positions(sides.source, group)) == PARTITIONS, "the group commits")
    carry(mine, flow.topic, group)
    kproxy.hold(unit, unit=unit)
    carry(mine, flow.topic, group)
    for do in ("flip", "commit", "release"):
        kproxy.must(do, unit, unit)


def whole(numbers: list[list[int]], flow: Flow) -> bool:
    return numbers == [list(range(sent)) for sent in flow.acked]


def test_a_part_is_led_elsewhere_and_nobody_else(sides: TwoSides, start: Start) -> None:
    """Also by a kproxy that was killed, and begun again."""
    kproxy = start("kproxy", "--admin-reload")
    moves, stays = flow_of(sides, kproxy, "moves"), flow_of(sides, kproxy, "stays")
    with moves, stays:
        unit = kproxy.make_part("some", "moves", "others-*")
        assert kproxy.seen(unit)["active"] == BLUE
        moves.wait_flowing()  # nobody was cut
        switch(sides, kproxy, moves, unit)
        assert (kproxy.seen()["active"], kproxy.seen(unit)["active"]) == (BLUE, GREEN)
        for flow in (moves, stays):
            flow.wait_flowing()
            flow._producer.list_topics(timeout=30)
        by_unit = {name: {one["client"] for one in kproxy.seen(name)["clients"]} for name in ("default", unit)}
        assert by_unit == {"default": {"stays"}, unit: {"moves"}}
        (client, *_) = kproxy.seen(unit)["clients"]
        assert (client["reads"], client["writes"]) == (True, True)
        status = json.loads(kproxy.get("/status")[1])["clusters"][0]["switch"]
        assert (status["active"], [(one["part"], one["active"]) for one in status["parts"]]) == (
            BLUE,
            [("some", GREEN)],
        )
        code, answer = kproxy.ask({"cluster": unit, "do": "join"})
        assert (code, answer["problem"]) == (409, "part some is routed to green, and all others to blue")
        before = kproxy.upstreams
        kproxy.configure(before[0], "127.0.0.1:1")
        code, text = kproxy.post("/reload")
        assert (code, "upstream green must stay as it is: part some is routed there" in text) == (400, True), text
        kproxy.configure(*before)
        assert kproxy.post("/reload")[0] == 200
        moves.wait_flowing()
        kproxy.again()
        assert (kproxy.seen()["active"], kproxy.seen(unit)["active"]) == (BLUE, GREEN)
        moves.wait_flowing()
        stays.wait_flowing()
    assert whole(in_log(sides.target, moves.topic, PARTITIONS), moves)
    assert whole(in_log(sides.source, stays.topic, PARTITIONS), stays)
    assert in_log(sides.target, stays.topic, PARTITIONS) == [[]] * PARTITIONS
    left = in_log(sides.source, moves.topic, PARTITIONS)
    assert all(0 < len(one) < sent for one, sent in zip(left, moves.acked, strict=True))


def test_all_others_are_switched_and_the_part_is_not(sides: TwoSides, start: Start) -> None:
    kproxy = start()
    moves, stays = flow_of(sides, kproxy, "moves"), flow_of(sides, kproxy, "stays")
    with moves, stays:
        unit = kproxy.make_part("some", "stays")
        switch(sides, kproxy, moves, "default")
        for flow in (moves, stays):
            flow.wait_flowing()
            flow._producer.list_topics(timeout=30)  # of one, in a session from before there was a part
        assert (kproxy.seen()["active"], kproxy.seen(unit)["active"]) == (GREEN, BLUE)
    assert whole(in_log(sides.target, moves.topic, PARTITIONS), moves)
    assert whole(in_log(sides.source, stays.topic, PARTITIONS), stays)


def test_a_part_that_was_never_switched_joins_again(sides: TwoSides, start: Start) -> None:
    kproxy = start()
    flow = flow_of(sides, kproxy, "moves")
    with flow:
        unit = kproxy.make_part("some", "moves")
        admin = AdminClient({"bootstrap.servers": kproxy.bootstrap, "client.id": "moves"})
        assert flow.topic in admin.list_topics(timeout=30).topics
        kproxy.hold("undone", unit=unit)
        assert kproxy.ask({"cluster": unit, "do": "join"})[0] == 409, "it is held"
        kproxy.must("undo", "undone", unit)
        flow.wait_flowing()
        code, answer = kproxy.ask({"cluster": unit, "do": "join"})
        assert (code, answer["cluster"]["name"]) == (200, "default")
        assert kproxy.ask({"cluster": unit, "do": "join"})[0] == 200, "it may be said again"
        assert flow.topic in admin.list_topics(timeout=30).topics, "in a session of the part from before"
        assert [one["name"] for one in kproxy.ask()[1]["clusters"]] == ["default"]
        assert sorted(one.name for one in kproxy.state_dir.iterdir()) == ["cluster-default.json", "lock"]
        flow.wait_flowing()
        switch(sides, kproxy, flow, "default")
        flow.wait_flowing()
    assert whole(in_log(sides.target, flow.topic, PARTITIONS), flow)


def test_a_part_that_has_come_back_gets_more_clients(sides: TwoSides, start: Start) -> None:
    """Those that join it were never away: none of them waits or ends, and they go with it the next time."""
    kproxy = start()
    moves, joins, stays = (flow_of(sides, kproxy, who) for who in ("moves", "joins", "stays"))
    with joins, stays:
        with moves:
            unit = kproxy.make_part("some", "moves")
            switch(sides, kproxy, moves, unit)
            code, answer = kproxy.ask({"cluster": unit, "do": "part", "clients": ["moves", "join*"]})
            assert (code, answer["problem"]) == (409, "part some is routed to green, and all others to blue")
            moves.wait_flowing()
        kproxy.hold("back", to=BLUE, unit=unit)
        for do in ("flip", "commit", "release"):
            kproxy.must(do, "back", unit)
        code, answer = kproxy.ask({"cluster": unit, "do": "part", "clients": ["join*", "moves"]})
        assert (code, answer["cluster"]["members"]) == (200, ["join*", "moves"])
        joins.wait_flowing()  # in the sessions from before
        assert {each["client"] for each in kproxy.seen(unit)["clients"]} - {"moves"} == {"joins"}
        assert kproxy.seen(unit)["waiting"] == []
        switch(sides, kproxy, joins, unit)
        joins.wait_flowing()
        stays.wait_flowing()
        kproxy.again()
        assert (kproxy.seen(unit)["members"], kproxy.seen(unit)["active"]) == (["join*", "moves"], GREEN)
        joins.wait_flowing()
        stays.wait_flowing()
    assert whole(in_log(sides.target, joins.topic, PARTITIONS), joins)
    assert whole(in_log(sides.source, stays.topic, PARTITIONS), stays)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_is_in_a_group(sides: TwoSides, protocol: str) -> None:
    topic, group = unique("read"), unique("readers")
    create_topic(sides.source, topic, PARTITIONS)
    common = {"bootstrap.servers": sides.source, "group.id": group, "group.protocol": protocol}
    with ExitStack() as held, Admin(sides.source) as admin:
        assert group not in read_members(admin, lambda name: name == group)
        consumers = [Consumer({**common, "client.id": name}) for name in ("reader-1", "reader-2")]
        for one in consumers:
            held.callback(one.close)
            one.subscribe([topic])

        def are_members() -> bool:
            for one in consumers:
                one.poll(0.1)
            return all(one.assignment() for one in consumers)

        wait_until(are_members, "both are members")
        assert read_members(admin, lambda name: name == group) == {group: {"reader-1", "reader-2"}}
        assert read_occupied_groups(admin, lambda name: name == group) == [group]
        for one in consumers:
            one.close()
        wait_until(lambda: not read_occupied_groups(admin, lambda name: name == group), "both have left")


def test_who_is_in_a_share_group(sides: TwoSides, tmp_path: Path) -> None:
    topic, group = unique("shared"), unique("sharers")
    create_topic(sides.source, topic, PARTITIONS)
    properties = {"bootstrap.servers": sides.source, "group.id": group, "client.id": "sharer-1"}
    with (
        java(Programs.of(DEFAULT_VERSION), ["share", topic], properties, tmp_path / "sharer"),
        Admin(sides.source) as admin,
    ):
        expected = {group: frozenset({"sharer-1"})}
        wait_until(lambda: read_members(admin, lambda name: name == group) == expected, "it is a member")


def test_what_is_refused(start: Start) -> None:
    kproxy = start()
    unit = kproxy.make_part("some", "a", "b-*")
    assert kproxy.make_part("some", "a", "b-*") == unit, "it may be said again"
    assert kproxy.make_part("another", "c") == "default/another"
    for name, clients, problem in (
        ("some", ["a"], "there is a part some already, with other clients: b-*"),
        ("some", ["a", "b-*", "c"], "client id c is in part another already"),
        ("more", ["x", "a"], "client id a is in part some already"),
        ("more", ["b-7"], "client id b-7 is in part some already, as b-*"),
    ):
        code, answer = kproxy.ask({"cluster": f"default/{name}", "do": "part", "clients": clients})
        assert (code, answer["problem"]) == (409, problem)
    kproxy.must("hold", to=GREEN, seconds=20)
    code, answer = kproxy.ask({"cluster": "default/more", "do": "part", "clients": ["x"]})
    assert code == 409
    assert answer["problem"].startswith("switch x is under way (")
    kproxy.must("undo")
    kproxy.kill()
    (kproxy.state_dir / "cluster-default.some.json").unlink()
    with pytest.raises(AssertionError, match=r"cluster default has part some, and .* is missing"):
        kproxy.start()


def test_a_client_that_does_not_say_who_it_is_has_no_session(start: Start) -> None:
    """Each byte on its own, an end in the middle, and nonsense: where a cluster has parts, a client is heard first."""
    kproxy = start()
    kproxy.make_part("some", "moves")
    host, port = kproxy.bootstrap.split(":")
    request = struct.pack(">ihhih", 15, 18, 0, 1, 5) + b"moves"  # ApiVersions 0
    with socket.create_connection((host, int(port))) as client:
        for at in range(len(request)):
            client.sendall(request[at : at + 1])
        client.settimeout(30)
        assert len(client.recv(65536)) > 8
        seen = kproxy.seen("default/some")["clients"]
        assert [one["client"] for one in seen] == ["moves"]
    with socket.create_connection((host, int(port))) as client:
        client.sendall(request[:-2])
        client.shutdown(socket.SHUT_WR)
        client.settimeout(30)
        assert client.recv(1) == b""
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"\x7f\xff\xff\xff" * 200)
        client.settimeout(30)
        assert client.recv(1) == b""


def test_a_part_whose_clients_use_tls(sides: TwoSides, start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.files("127.0.0.1")
    kproxy = start("tls", "--client-tls-cert", str(cert), "--client-tls-key", str(key))
    tls = {"security.protocol": "ssl", "ssl.ca.location": str(authority.pem)}
    moves, stays = flow_of(sides, kproxy, "moves", **tls), flow_of(sides, kproxy, "stays", **tls)
    with moves, stays:
        unit = kproxy.make_part("some", "moves")
        switch(sides, kproxy, moves, unit)
        moves.wait_flowing()
        stays.wait_flowing()
    assert whole(in_log(sides.target, moves.topic, PARTITIONS), moves)
    assert whole(in_log(sides.source, stays.topic, PARTITIONS), stays)
