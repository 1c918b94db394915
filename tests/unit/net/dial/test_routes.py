"""Which addresses are dialled for a node, and in which order."""

from __future__ import annotations

from kproxy.base.address import Address
from kproxy.config.values import Map
from kproxy.net.dial.routes import Route, RouteKind, Routes

THERE = Address("b1.internal", 9092)
BOOTSTRAP, OTHER = Address("bootstrap", 19000), Address("bootstrap", 19001)


def test_without_maps_the_advertised_address_is_dialled() -> None:
    assert Routes([]).candidates("1", THERE) == [Route(THERE, RouteKind.ADVERTISED)]


def test_a_map_leaves_no_other_way() -> None:
    routes = Routes([Map.parse("*.internal=gate:{port}")])
    assert routes.candidates("1", THERE, [BOOTSTRAP], [OTHER]) == [Route(Address("gate", 9092), RouteKind.MAPPED)]
    elsewhere = Address("b1.example", 9092)
    assert routes.candidates("1", elsewhere)[0] == Route(elsewhere, RouteKind.ADVERTISED)


def test_the_first_map_that_matches_counts() -> None:
    routes = Routes([Map.parse("node:7=seven:7"), Map.parse("b1.internal=one:1"), Map.parse("*.internal=any:2")])
    assert routes.candidates("1", THERE) == [Route(Address("one", 1), RouteKind.MAPPED)]
    assert routes.candidates("7", THERE) == [Route(Address("seven", 7), RouteKind.MAPPED)]
    assert routes.candidates("2", Address("b2.internal", 5)) == [Route(Address("any", 2), RouteKind.MAPPED)]


def test_a_node_s_map_is_for_its_kind() -> None:
    routes = Routes([Map.parse("node:1=one:1"), Map.parse("node:controller-1=two:2")])
    assert routes.candidates("1", THERE) == [Route(Address("one", 1), RouteKind.MAPPED)]
    assert routes.candidates("controller-1", THERE) == [Route(Address("two", 2), RouteKind.MAPPED)]
    assert routes.candidates("controller-2", THERE) == [Route(THERE, RouteKind.ADVERTISED)]


def test_confirmed_addresses_come_second_and_possible_ones_last() -> None:
    assert Routes([]).candidates("1", THERE, [BOOTSTRAP], [OTHER]) == [
        Route(THERE, RouteKind.ADVERTISED),
        Route(BOOTSTRAP, RouteKind.LEARNED),
        Route(OTHER, RouteKind.UNIDENTIFIED),
    ]


def test_no_address_is_a_candidate_twice() -> None:
    routes = Routes([]).candidates("1", THERE, [THERE, BOOTSTRAP], [BOOTSTRAP, THERE, OTHER])
    assert [route.dial for route in routes] == [THERE, BOOTSTRAP, OTHER]


def test_a_bootstrap_server_has_maps_too() -> None:
    exact, near = Map.parse("b1.internal:9092=one:1"), Map.parse("*.internal=gate:{port}")
    for maps, dial in (([exact, near], Address("one", 1)), ([near, exact], Address("gate", 9092))):
        assert Routes(maps).of_server(THERE) == Route(dial, RouteKind.MAPPED)
    for other in ("node:1=one:1", "node:controller-1=one:1", "b2.internal=two:2", "b1.internal:1=one:1"):
        routes = Routes([Map.parse(other)])
        assert routes.of_server(THERE) == Route(THERE, RouteKind.ADVERTISED)
        assert len(routes.unused_maps()) == 1
    used = Routes([near])
    used.of_server(THERE)
    assert used.unused_maps() == []


def test_maps_that_never_matched_are_told() -> None:
    maps = [Map.parse("b1.internal=one:1"), Map.parse("typo.internal=two:2"), Map.parse("node:9=nine:9")]
    routes = Routes(maps)
    assert routes.unused_maps() == maps
    routes.candidates("1", THERE)
    assert routes.unused_maps() == maps[1:]
