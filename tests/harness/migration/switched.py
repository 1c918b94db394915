"""A kproxy whose cluster has two upstreams, and the commands of a switch over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kproxy.proxy.switching import asjson
from kproxy.proxy.switching.asjson import SavedState
from kproxy.proxy.switching.participant import ParticipantState
from tests.harness.process import PATIENCE_S, Kproxy, free_window, wait_until

TOKEN = "a-token-of-the-tests"
BLUE, GREEN = "blue", "green"


class Switched(Kproxy):
    """`kproxy run` with the upstreams blue, which is active, and green.

    It can be killed and started again with the same ports and files. `settled`: its state has no unanswered writes from
    before; else a hold would wait for minutes until clients of a former kproxy have given up. `forbidden` names must
    never reach a client. `options`: more options of an upstream, by its name. `shares`: the bootstrap address, which
    other kproxies have too (`reuse-port`).
    """

    def __init__(
        self,
        directory: Path,
        blue: str,
        green: str,
        *args: str,
        settled: bool = True,
        forbidden: Sequence[str] = (),
        options: Mapping[str, Mapping[str, object]] | None = None,
        shares: str = "",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.state_dir = directory / "state"
        self.log_path = directory / "kproxy.log"
        self._findings = directory / "leaks"
        self._config = directory / "kproxy.yaml"
        self._args = args
        self._forbidden = forbidden
        self._options = options or {}
        self._wait_for_ids = options is None
        first = free_window(202)
        self.admin = f"127.0.0.1:{first}"
        self.bootstrap = shares or f"127.0.0.1:{first + 1}"
        self.first_port = first + 2
        self._shares = bool(shares)
        token = directory / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        self.configure(blue, green)
        self.state_dir.mkdir(exist_ok=True)
        if settled:
            self.state_file.write_bytes(
                asjson.encode_state_file("default", SavedState(ParticipantState(BLUE), ended=True, fetched=()))
            )
        self.start()

    @property
    def config_file(self) -> Path:
        return self._config

    @property
    def state_file(self) -> Path:
        return self.state_dir / "cluster-default.json"

    def configure(self, blue: str, green: str, active: str = BLUE) -> None:
        """Write the configuration."""
        self.upstreams = (blue, green)
        value = {
            "listen": self.bootstrap,
            **({"reuse-port": True} if self._shares else {}),
            "admin": self.admin,
            "admin-token-file": str(self._config.parent / "token"),
            "state-dir": str(self.state_dir),
            "active": active,
            "upstreams": {
                name: {"bootstrap-servers": servers, **self._options.get(name, {})}
                for name, servers in ((BLUE, blue), (GREEN, green))
            },
        }
        self._config.write_text(json.dumps(value))  # which is YAML as well

    def command(self, *args: str) -> list[str]:
        watched = (
            [self.watched, str(self._findings), ",".join(self._forbidden), "--"] if self._forbidden else ["kproxy"]
        )
        return [sys.executable, "-m", *watched, "run", "--config", str(self._config), *self._args, *args]

    def start(self) -> None:
        """Start, and wait until both upstreams have answered."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=subprocess.STDOUT, cwd=Path(__file__).parents[3]
            )
        wait_until(self._is_up, "both upstreams have answered")

    def _is_up(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"kproxy ended with {self.process.returncode}:\n{self.log}")
        code, text = self.get("/status")
        if code != 200:
            return False
        upstreams = json.loads(text)["clusters"][0]["upstreams"]
        return all(one["searched"] and (one["cluster_id"] or not self._wait_for_ids) for one in upstreams)

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self.process.kill()
        self.process.wait()

    def again(self) -> None:
        self.kill()
        self.start()

    def post(self, path: str) -> tuple[int, str]:
        """Post this with the token; return status and text."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        request = urllib.request.Request(f"http://{self.admin}{path}", method="POST", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    # Commands

    def ask(self, body: object = None, *, token: str | None = TOKEN, **headers: str) -> tuple[int, Any]:
        """Get /switch, or post a body (bytes: as they are); return the status, and JSON or text."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {token}"} if token is not None else {}
        if data is not None:
            given["Content-Type"] = "application/json"
        request = urllib.request.Request(f"http://{self.admin}/switch", data, {**given, **headers})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
                return error.code, json.loads(text) if text.startswith("{") else text

    def tell(self, do: str, switch: str = "x", unit: str = "default", **more: object) -> tuple[int, Any]:
        return self.ask({"cluster": unit, "switch": switch, "do": do, **more})

    def must(self, do: str, switch: str = "x", unit: str = "default", **more: object) -> dict[str, Any]:
        """Post a command that must succeed; return the unit's object."""
        code, answer = self.tell(do, switch, unit, **more)
        assert code == 200, answer
        return dict(answer["cluster"])

    def hold(self, switch: str = "x", to: str = GREEN, seconds: float = 25, unit: str = "default") -> None:
        """Hold, and wait until held."""
        self.must("hold", switch, unit, to=to, seconds=seconds)
        self.wait_for("held", unit)

    def make_part(self, name: str, *clients: str) -> str:
        """Make a part of the cluster; return its unit."""
        unit = f"default/{name}"
        code, answer = self.ask({"cluster": unit, "do": "part", "clients": clients})
        assert code == 200, answer
        return unit

    def seen(self, unit: str = "default") -> dict[str, Any]:
        """Return the unit's object in /switch."""
        code, answer = self.ask()
        assert code == 200, answer
        (found,) = (one for one in answer["clusters"] if one["name"] == unit)
        return dict(found)

    def wait_for(self, phase: str, unit: str = "default") -> dict[str, Any]:
        return dict(wait_until(lambda: (now := self.seen(unit))["phase"] == phase and now, f"phase {phase}"))
