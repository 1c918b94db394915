"""What happens between kproxy and the brokers: another broker at an address, something else, nothing, silence, resets.

A *swap* is what this is for: at a broker's address is one of another cluster, of the same node id and with the same
advertised name, as when a port-forward leads to another cluster. A *mix* is another broker of the same cluster. A
*tour* leads to each of these in turn, to a controller, which confirms any node, and to nothing, and then back.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kproxy.base.address import Address
from tests.harness.servers.peers import Peer, refused, saying, silent
from tests.soak.actor import Actor
from tests.soak.journal import Journal
from tests.soak.site import Site
from tests.soak.switch import Line

_IMPOSTORS = {
    "nobody who speaks": silent,
    "a web server": saying(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", first=False),
    "an SSH server": saying(b"SSH-2.0-OpenSSH_9.6\r\n", first=True),
    "a server of noise": saying(Random(5).randbytes(5000), first=False),
    "an endless frame": saying(b"\x7f\xff\xff\xff" + bytes(5000), first=False),
    "short frames": saying(b"\0\0\0\1x" * 100, first=False),
}


class RoadFaults(Actor):
    name = "roads"
    gaps = (2.5, 6.0)

    def __init__(self, journal: Journal, site: Site) -> None:
        super().__init__(journal)
        self._site = site
        self.acts = {
            "swap": self._swap,
            "mix": self._mix,
            "controller": self._controller,
            "tour": self._tour,
            "impostor": self._impostor,
            "reset": self._reset,
            "refuse": self._refuse,
            "hold": self._hold,
        }

    def _swap(self, chance: Random) -> str:
        twins = self._site.there.node_ids
        nodes = twins if chance.random() < 0.3 else [chance.choice(twins)]
        return self._lead(chance, {node: self._site.there.dial[node] for node in nodes}, "the other cluster's")

    def _mix(self, chance: Random) -> str:
        one, other = chance.sample(self._site.here.node_ids, 2)
        wrong = {one: self._site.here.dial[other]}
        if chance.random() < 0.5:
            wrong[other] = self._site.here.dial[one]
        return self._lead(chance, wrong, "another of the same cluster")

    def _controller(self, chance: Random) -> str:
        node, cluster = chance.choice(self._site.here.node_ids), chance.choice([self._site.here, self._site.there])
        return self._lead(chance, {node: self._site.controller(cluster)}, "a controller")

    def _tour(self, chance: Random) -> str:
        node = chance.choice(self._site.here.node_ids)
        others = [*self._site.here.dial.items(), *self._site.there.dial.items()]
        with refused() as nothing:
            stops = [
                *(address for at, address in others if at != node or address != self._site.here.dial[node]),
                *(self._site.controller(cluster) for cluster in (self._site.here, self._site.there)),
                Address.parse(nothing),
            ]
            chance.shuffle(stops)
            self.journal.note(self.name, f"the line to {_names([node])} is on a tour")
            try:
                for stop in stops:
                    # None: what is connected stays where it is, and what connects goes elsewhere.
                    self._site.lines[node].lead(stop, reset=chance.choice([True, False, None]))
                    self.last(chance.uniform(0.05, 1))
            finally:
                self._site.lines[node].lead(None, reset=True)
        return f"it is {_names([node])} again"

    def _impostor(self, chance: Random) -> str:
        node, who = chance.choice(self._site.here.node_ids), chance.choice(list(_IMPOSTORS))
        with Peer(_IMPOSTORS[who]) as peer:
            return self._lead(chance, {node: Address.parse(peer.address)}, who)

    def _lead(self, chance: Random, nodes: dict[int, Address], what: str) -> str:
        seconds, reset = chance.uniform(0.5, 5), chance.random() < 0.5
        self.journal.note(self.name, f"at the address of {_names(list(nodes))} is {what} ({_ending(reset)})")
        try:
            for node, address in nodes.items():
                self._site.lines[node].lead(address, reset=reset)
            self.last(seconds)
        finally:
            for node in nodes:
                self._site.lines[node].lead(None, reset=not reset)
        return f"it is {_names(list(nodes))} again"

    def _reset(self, chance: Random) -> str:
        nodes = [node for node in self._site.here.node_ids if chance.random() < 0.6]
        reset = chance.random() < 0.7
        for node in nodes:
            self._site.lines[node].cut(reset=reset)
        return f"all connections to {_names(nodes)} were cut ({_ending(reset)})"

    def _refuse(self, chance: Random) -> str:
        line, seconds = self._line(chance), chance.uniform(0.5, 4)
        reset = chance.random() < 0.5
        line.refuse(True)
        try:
            line.cut(reset=reset)
            self.last(seconds)
        finally:
            line.refuse(False)
        return "it takes connections again"

    def _hold(self, chance: Random) -> str:
        line, seconds = self._line(chance), chance.uniform(0.5, 5)
        line.hold(True)
        try:
            self.last(seconds)
            if chance.random() < 0.5:
                line.cut(reset=True)
        finally:
            line.hold(False)
        return "it passes on again"

    def _line(self, chance: Random) -> Line:
        node = chance.choice(self._site.here.node_ids)
        self.journal.note(self.name, f"it is about {_names([node])}")
        return self._site.lines[node]


def _names(nodes: Sequence[int]) -> str:
    return f"broker {', '.join(map(str, nodes))}" if nodes else "no broker"


def _ending(reset: bool) -> str:
    return "by resets" if reset else "closed"
