"""`kproxy migrate observe` at two kproxies: waves of real clients, a kproxy that restarts, producers that go round."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from tests.harness.clients.flow import create_topic
from tests.harness.clusters.twosides import TwoSides
from tests.harness.migration.switched import GREEN, TOKEN, Switched
from tests.harness.process import PATIENCE_S, wait_until
from tests.harness.topics import consumer, read, unique

pytestmark = pytest.mark.integration

Start = Callable[..., Switched]


class Observing:
    """The command as a process; its lines on stderr are kept."""

    def __init__(self, file: Path, *args: str) -> None:
        command = [sys.executable, "-m", "kproxy", "migrate", "observe", str(file), "--json", *args]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)

    def wait_begun(self) -> None:
        wait_until(lambda: self._has("observing at") or self.process.poll() is not None, "it observes")
        assert self._has("observing at"), "".join(self.lines)

    def _has(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def result(self, *, interrupt: bool = True) -> tuple[int, dict[str, Any]]:
        """The exit code and the JSON, after Ctrl-C."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        self._reader.join()
        assert out, "".join(self.lines)
        return self.process.returncode, json.loads(out)


def move_file(directory: Path, sides: TwoSides, *kproxies: Switched, **more: Any) -> Path:
    token = directory / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    file = directory / "move.yaml"
    switch = {"kproxies": [each.admin for each in kproxies], "token-file": str(token), "target-upstream": GREEN}
    sections = {"source": {"bootstrap-servers": sides.source}, "target": {"bootstrap-servers": sides.target}}
    file.write_text(yaml.safe_dump({"name": sides.name, **sections, "switch": switch, **more}))
    return file


def produce(bootstrap: str, topic: str, count: int, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(PATIENCE_S) == 0


@contextmanager
def reading(bootstrap: str, topic: str, group: str) -> Iterator[None]:
    """A member of a group that has read and committed."""
    with consumer(bootstrap, **{"group.id": group, "client.id": group}) as reader:
        reader.subscribe([topic])
        read(reader, 1)
        reader.commit(asynchronous=False)
        yield


def wave_with(waves: list[Mapping[str, Any]], topic: str) -> Mapping[str, Any]:
    (wave,) = [wave for wave in waves if topic in wave["topics"]]
    return wave


def test_waves_of_real_clients_and_who_goes_round(sides: TwoSides, start: Start, tmp_path: Path) -> None:
    first, second = start("first"), start("second")
    orders, out, alone = (unique(name) for name in ("orders", "out", "alone"))
    for topic in (orders, out, alone):
        create_topic(sides.source, topic, 1)
    transaction, group = unique("tx"), unique("group")
    waves = {"mine": {"clients": ["shop"], "topics": [orders]}}
    file = move_file(tmp_path, sides, first, second, topics={"include": [orders, out, alone]}, waves=waves)
    other = Observing(file, "--output", str(tmp_path / "other.json"))  # two observers at once
    command = Observing(file, "--svg", str(tmp_path / "waves.svg"))
    command.wait_begun()
    other.wait_begun()
    code, _ = other.result()  # the other one's end does not end this one
    produce(first.bootstrap, orders, 5, **{"client.id": "shop"})
    with reading(second.bootstrap, orders, group):
        writer = Producer(
            {"bootstrap.servers": first.bootstrap, "client.id": "writer", "transactional.id": transaction}
        )
        writer.init_transactions(PATIENCE_S)
        writer.begin_transaction()
        writer.produce(out, b"x")
        writer.commit_transaction(PATIENCE_S)
        produce(sides.source, alone, 3, **{"client.id": "round", "enable.idempotence": True})  # straight to the broker
        produce(sides.source, orders, 4, **{"client.id": "round"})
        produce(second.bootstrap, orders, 2, **{"client.id": "shop"})
        code, result = command.result()
    assert code == 1

    wave = wave_with(result["waves"], orders)
    assert {client["client_id"] for client in wave["clients"]} == {"shop", group}
    assert wave["groups"] == [group]
    assert [[name for name in step["together"] if name.startswith("client")] for step in wave["steps"]] == [
        [f"client {group}"], ["client shop"],
    ]  # fmt: skip
    assert wave_with(result["waves"], out)["transactional_ids"] == [transaction]
    texts = {finding["subject"]: finding["text"] for finding in result["findings"]}
    assert "producer id" in texts[f"topic {alone}"]
    assert "without a producer id, 4 records" in texts[f"topic {orders}"]
    assert f"topic {out}" not in texts  # the marker of the transaction is no record
    cuts = [finding["text"] for finding in result["findings"] if finding["subject"] == "wave mine"]
    assert any(f"client {group} is connected to topic {orders}, which is in wave mine" in text for text in cuts)
    assert all("may move before the writers" in text for text in cuts)
    assert "<svg" in (tmp_path / "waves.svg").read_text()

    planned = subprocess.run(
        [sys.executable, "-m", "kproxy", "migrate", "plan", str(file), "--json", "--sample", "0s"],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert planned.stdout, planned.stderr
    plan = json.loads(planned.stdout)
    assert [each["topics"] for each in plan["waves"]] == [each["topics"] for each in result["waves"]]
    assert any(finding["subject"] == "wave mine" for finding in plan["findings"])


def test_a_kproxy_that_restarts_and_one_that_is_not_there(sides: TwoSides, start: Start, tmp_path: Path) -> None:
    """What one knew before stays, the gap is named, and what follows is recorded."""
    kproxy, gone = start("kproxy"), start("gone")
    gone.kill()
    topic, later = unique("before"), unique("later")
    for name in (topic, later):
        create_topic(sides.source, name, 1)
    file = move_file(tmp_path, sides, kproxy, gone, topics={"include": [topic, later]})
    path = tmp_path / f"kproxy-observed-{sides.name}.json"
    command = Observing(file, "--for", "10m")
    command.wait_begun()
    assert any(line.startswith(f"{gone.admin}: ") for line in command.lines), command.lines
    produce(kproxy.bootstrap, topic, 3, **{"client.id": "shop"})
    wait_until(lambda: path.exists() and topic in path.read_text(), "the record was read")
    kproxy.again()
    wait_until(lambda: json.loads(path.read_text())["kproxies"][0]["gaps"], "the gap is known")
    produce(kproxy.bootstrap, later, 2, **{"client.id": "shop"})
    code, result = command.result()
    assert code == 0
    assert {topic for wave in result["waves"] for topic in wave["topics"]} == {topic, later}
    texts = [f"{finding['subject']}: {finding['text']}" for finding in result["findings"]]
    assert any(kproxy.admin in text and "was restarted" in text for text in texts)
    assert any(gone.admin in text and "was not observed" in text for text in texts)


def test_no_kproxy_at_all_is_an_error_in_one_line(sides: TwoSides, start: Start, tmp_path: Path) -> None:
    gone = start("gone")
    gone.kill()
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", "migrate", "observe", str(move_file(tmp_path, sides, gone))],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no kproxy can be observed" in done.stderr
    assert "Traceback" not in done.stderr
