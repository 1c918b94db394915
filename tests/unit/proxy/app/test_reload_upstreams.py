"""A new configuration with other upstreams, while clients are connected."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kproxy.base.errors import ConfigError
from kproxy.proxy.app.main import App
from kproxy.proxy.app.statedir import StateDir
from kproxy.proxy.switching.asjson import SavedState
from kproxy.proxy.switching.participant import LastSwitch, ParticipantState, Phase, SwitchOutcome
from tests.harness.servers.fakebroker import FakeBroker
from tests.harness.servers.peers import Peer
from tests.unit.proxy.app.serving import broker, client_of, put, reload, served, works
from tests.unit.proxy.cluster.doorway import is_closed, until

HOLD = {"cluster": "default", "do": "hold", "switch": "x", "to": "green", "seconds": 20}


class Bench:
    """The Kafka clusters blue, green and red, of one broker each, and the configurations in which they stand."""

    def __init__(self, held: ExitStack, directory: Path) -> None:
        self.peers: dict[str, Peer] = {}
        for number, name in enumerate(("blue", "green", "red"), 1):
            behave = FakeBroker(cluster_id=name)
            self.peers[name] = held.enter_context(Peer(behave))
            broker(self.peers[name], behave, number)
        self.file, self.state_dir = directory / "kproxy.yaml", directory / "state"

    def plain(self, name: str = "blue", **more: str) -> str:
        return self._of({"bootstrap-servers": self.peers[name].address, **more})

    def upstreams(self, active: str, *others: str, **more: str) -> str:
        each = {name: {"bootstrap-servers": self.peers[name].address} for name in sorted((active, *others))}
        return self._of({"active": active, "upstreams": each, **more})

    def _of(self, values: dict[str, Any]) -> str:
        return json.dumps({"listen": "127.0.0.1:0", "admin": "off", "drain-timeout": "1s", **values})

    @property
    def kept(self) -> ParticipantState | None:
        file = self.state_dir / "cluster-default.json"
        return ParticipantState(**json.loads(file.read_text())["state"]) if file.exists() else None


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as held:
        yield Bench(held, tmp_path)


async def ready(running: App, *names: str) -> None:
    """All of these are explored, each under this name."""

    def explored() -> bool:
        (cluster,) = running.status().clusters
        shown = {one.name: one.cluster_id for one in cluster.upstreams}
        return shown == {name: name for name in names} and not running.not_ready("all")

    await until(explored, f"{names} are there")


def ordered(running: App, **more: object) -> dict[str, Any]:
    """What comes of POST /switch."""
    return dict(json.loads(running._switch({**HOLD, **more}).body))


def test_upstreams_come_and_go_and_clients_are_cut_once(bench: Bench) -> None:
    """From no upstreams over a switch to no upstreams: only when versions begin to be capped must clients come anew."""
    kept_in = {"state-dir": str(bench.state_dir)}

    async def scenario(running: App) -> None:
        await ready(running)
        assert running._switching is None
        (before,) = running.status().clusters
        clients = [client_of(running, "default"), client_of(running, "default", 1)]
        for client in clients:
            await works(client)
        answer = await reload(running, bench.upstreams("blue", "green", **kept_in), bench.file)
        assert list(answer.lines) == [
            "cluster default: is default/blue from now on", "cluster default/green: added",
            f"state-dir: {bench.state_dir}", "2 sessions of the former configuration will end",
        ]  # fmt: skip
        for client in clients:
            await until(lambda client=client: is_closed(client), "it is drained")
            client.close()
        await ready(running, "blue", "green")
        assert running._switching is not None
        (cluster,) = running.status().clusters
        assert (cluster.listen, cluster.nodes[0].local) == (before.listen, before.nodes[0].local)
        refused = ordered(running)["problem"]
        assert "got its upstreams, a short time ago, and clients may repeat writes for 3" in refused
        running._switching._switches["default"]._doubts_until = 0.0  # type: ignore[union-attr]  # five minutes later
        assert not ordered(running)["problem"]
        await until(lambda: running.status().clusters[0].switch.phase == "held", "it is held")  # type: ignore[union-attr]
        for do in ("flip", "commit", "release"):
            put(bench.file, bench.upstreams("green", **kept_in))
            held = await running._reload()
            assert (held.outcome, list(held.lines)) == (
                "refused", ["cluster default is in switch x: reload when that is over"],
            )  # fmt: skip
            assert not ordered(running, do=do)["problem"]
        clients = [client_of(running, "default"), client_of(running, "default", 2)]
        for client in clients:
            await works(client)
        # The former one, which is not active any more, may be changed, go and come; nobody is cut.
        for text, lines in (
            (bench.upstreams("green", "blue", **kept_in), ["nothing has changed"]),
            (
                bench.upstreams("green", "red", **kept_in),
                ["cluster default/blue: removed", "cluster default/red: added"],
            ),
            (bench.upstreams("green", **kept_in), ["cluster default/red: removed"]),
            (bench.plain("green", **kept_in), ["cluster default/green: is default from now on"]),
        ):  # fmt: skip
            assert list((await reload(running, text, bench.file)).lines) == lines
            await ready(running, *(json.loads(text).get("upstreams", {})))
            for client in clients:
                await works(client)
        assert running.status().clusters[0].cluster_id == "green"
        assert bench.kept is None, "what the switch has left could lead the next one wrong"
        # A session of that time is capped, and noted by what is gone: it ends as any other.
        again = await reload(running, bench.upstreams("green", "red", **kept_in), bench.file)
        assert again.lines[-1] == "2 sessions of the former configuration will end"
        for client in clients:
            await until(lambda client=client: is_closed(client), "it is drained")
            client.close()
        assert bench.kept == ParticipantState("green")

    bench.file.write_text(bench.plain())
    served(bench.file, scenario)


def test_an_upstream_that_is_not_active_leads_elsewhere(bench: Bench) -> None:
    """Its new servers are of another Kafka cluster: that is no mistake, as nobody is led there."""

    async def scenario(running: App) -> None:
        await ready(running, "blue", "green")
        client = client_of(running, "default")
        await works(client)
        text = bench.upstreams("blue", "green").replace(bench.peers["green"].address, bench.peers["red"].address)
        answer = await reload(running, text, bench.file)
        assert list(answer.lines) == ["cluster default/green: removed", "cluster default/green: added"]
        await until(lambda: running.status().clusters[0].upstreams[1].cluster_id == "red", "it is found anew")
        dialled = {key for key in running._metrics.dials if key[1] == "bootstrap"}
        assert dialled == {("default", "bootstrap", "blue"), ("default", "bootstrap", "green")}
        await works(client)
        client.close()

    bench.file.write_text(bench.upstreams("blue", "green"))
    served(bench.file, scenario)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (
            "plain blue",
            "green blue",
            "clients are routed to {blue}, and default/green has none of these bootstrap servers",
        ),
        ("blue green", "plain green", "clients are routed to {blue}, and default has none of these bootstrap servers"),
        ("blue green", "green blue", "active has changed (blue → green): a reload would lose records"),
        ("blue green", "green red", "active has changed (blue → green): a reload would lose records"),
        ("blue green", "red", "active has changed (blue → red): a reload would lose records"),
    ],
)
def test_nobody_is_led_elsewhere_by_a_reload(bench: Bench, before: str, after: str, why: str) -> None:
    texts = [
        bench.plain(one.split()[1]) if "plain" in one else bench.upstreams(*one.split()) for one in (before, after)
    ]

    async def scenario(running: App) -> None:
        await until(lambda: not running.not_ready("all"), "it is ready")
        client = client_of(running, "default")
        await works(client)
        put(bench.file, texts[1])
        answer = await running._reload()
        addresses = {name: peer.address for name, peer in bench.peers.items()}
        assert (answer.outcome, len(answer.lines)) == ("refused", 1)
        assert why.format(**addresses) in answer.lines[0]
        await works(client)
        client.close()

    bench.file.write_text(texts[0])
    served(bench.file, scenario)


@pytest.mark.parametrize(
    ("kept", "refused"),
    [
        (ParticipantState("blue", count=7), ""),
        (
            ParticipantState("green", last=LastSwitch("y", "green", SwitchOutcome.RELEASED, "", 1.0, 1.0)),
            "was routed to upstream green",
        ),
        (ParticipantState("blue", Phase.HELD, "y", "1", "blue", "green", 1.0, 2.0), "was routed to upstream blue"),
    ],
    ids=["the same", "elsewhere", "in a switch"],
)  # fmt: skip
def test_a_state_of_another_time_leads_nobody_elsewhere(bench: Bench, kept: ParticipantState, refused: str) -> None:
    async def scenario(running: App) -> None:
        await ready(running)
        directory = StateDir(bench.state_dir)
        directory.write("default", SavedState(kept, ended=True, fetched=()))
        directory.close()
        put(bench.file, bench.upstreams("blue", "green", **{"state-dir": str(bench.state_dir)}))
        answer = await running._reload()
        if not refused:
            assert answer.outcome == "done"
            assert "clients may repeat writes" in ordered(running)["problem"], "nobody has noted what came before"
            assert running._switching is not None
            assert running._switching._switches["default"].state.count == 7
            return
        assert (answer.outcome, len(answer.lines)) == ("refused", 1)
        assert refused in answer.lines[0]
        assert str(bench.state_dir / "cluster-default.json") in answer.lines[0]
        assert running.status().clusters[0].upstreams == ()
        (bench.state_dir / "cluster-default.json").unlink()
        assert (await running._reload()).outcome == "done", "as the line says; and the directory was let go"

    bench.file.write_text(bench.plain())
    served(bench.file, scenario)


def test_a_directory_that_cannot_be_had_changes_nothing(bench: Bench) -> None:
    async def scenario(running: App) -> None:
        await ready(running)
        bench.state_dir.write_text("a file")
        put(bench.file, bench.upstreams("blue", "green", **{"state-dir": str(bench.state_dir)}))
        answer = await running._reload()
        assert (answer.outcome, len(answer.lines)) == ("refused", 1)
        assert answer.lines[0].startswith(f"--state-dir: {bench.state_dir} cannot be used: ")
        assert running.status().clusters[0].upstreams == ()
        bench.state_dir.unlink()
        assert (await running._reload()).outcome == "done"
        put(bench.file, bench.upstreams("blue", "green", **{"state-dir": str(bench.state_dir) + "-other"}))
        assert "only a restart can change that" in (await running._reload()).lines[0]

    bench.file.write_text(bench.plain())
    served(bench.file, scenario)


def test_no_hold_begins_while_upstreams_are_exchanged(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(running: App) -> None:
        await ready(running, "blue", "green")
        assert running._switching is not None
        switch = running._switching._switches["default"]
        switch._doubts_until = 0.0
        clusters = running._all_clusters()
        open_or_none, reached = clusters._open_or_none, asyncio.Event()
        going_on = asyncio.Event()

        async def slowly(*given: Any) -> Any:
            reached.set()
            await going_on.wait()
            return await open_or_none(*given)

        monkeypatch.setattr(clusters, "_open_or_none", slowly)
        put(bench.file, bench.upstreams("blue", "red", **{"state-dir": str(bench.state_dir)}))
        reloading = asyncio.get_running_loop().create_task(running._reload())
        await reached.wait()
        assert ordered(running)["problem"] == "the configuration is being reloaded: ask again"
        going_on.set()
        assert (await reloading).outcome == "done"
        assert "there is no upstream green; there are blue, red" in ordered(running)["problem"]

    bench.file.write_text(bench.upstreams("blue", "green", **{"state-dir": str(bench.state_dir)}))
    served(bench.file, scenario)


def test_a_start_without_upstreams_forgets_a_finished_switch(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(running: App) -> None:
        assert bench.kept is None

    def write(state: ParticipantState) -> None:
        directory = StateDir(bench.state_dir)
        directory.write("default", SavedState(state))
        directory.close()

    bench.file.write_text(bench.plain(**{"state-dir": str(bench.state_dir)}))
    write(ParticipantState("green"))
    served(bench.file, scenario)
    write(ParticipantState("green", Phase.COMMITTED, "y", "1", "blue", "green", 1.0))
    with pytest.raises(ConfigError, match=r"is in switch y \(committed\), and the configuration has no upstreams"):
        served(bench.file, scenario)
    assert bench.kept is not None
