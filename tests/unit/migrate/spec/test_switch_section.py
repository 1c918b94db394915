"""The section `switch` of a migration's file, and every mistake in its exact words."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.base.errors import ConfigError
from kproxy.migrate.spec.document import read_migration
from kproxy.migrate.spec.switch_section import KproxySelection, SwitchSection

BOTH = "source: {bootstrap-servers: a:9092}\ntarget: {bootstrap-servers: b:9092}\n"


def made(tmp_path: Path, text: str) -> SwitchSection | None:
    file = tmp_path / "m.yaml"
    file.write_text(BOTH + text)
    return read_migration(file).switch


def test_everything(tmp_path: Path) -> None:
    text = """\
switch:
  kproxies: [kp-1, 'https://kp-2:19443', '[::1]:19091']
  token-file: /etc/kproxy/token
  ca: /etc/kproxy/ca.pem
  server-name: kproxy.example
  cluster: main
  target-upstream: green
  hold-seconds: 12
  max-lag: 5000
"""
    assert made(tmp_path, text) == SwitchSection(
        KproxySelection(("kp-1:19091", "https://kp-2:19443", "[::1]:19091")), "green", "main", Path("/etc/kproxy/token"),
        Path("/etc/kproxy/ca.pem"), "kproxy.example", 12.0, 5000,
    )  # fmt: skip


def test_what_is_not_said(tmp_path: Path) -> None:
    found = made(tmp_path, "switch: {kproxies: kp:1, target-upstream: green}")
    assert found == SwitchSection(KproxySelection(("kp:1",)), "green")
    assert (found.cluster, found.hold_seconds, found.max_lag) == ("default", 20.0, 100_000)
    assert made(tmp_path, "") is None


@pytest.mark.parametrize(
    ("said", "kproxies"),
    [
        ("{dns: 'kproxies.prod.svc:19091'}", KproxySelection(dns="kproxies.prod.svc:19091")),
        ("{dns: 'https://kproxies'}", KproxySelection(dns="https://kproxies:19091")),
        ("{kubernetes: 'app=kproxy,tier!=test'}", KproxySelection(kubernetes="app=kproxy,tier!=test")),
        (
            "{kubernetes: app=kproxy, namespace: prod, port: 19443, https: yes, kubeconfig: /k}",
            KproxySelection(kubernetes="app=kproxy", namespace="prod", port=19443, https=True, kubeconfig=Path("/k")),
        ),
    ],
    ids=["dns", "dns https", "labels", "labels and all"],
)
def test_kproxies_that_are_looked_for(tmp_path: Path, said: str, kproxies: KproxySelection) -> None:
    found = made(tmp_path, f"switch: {{kproxies: {said}, target-upstream: green}}")
    assert found is not None
    assert found.kproxies == kproxies


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("{target-upstream: green}", "switch.kproxies: is missing; allowed: [[https://]HOST:PORT, …], {dns:"),
        ("{kproxies: a}", "switch.target-upstream: is missing; allowed: the name of an upstream, such as green"),
        ("{kproxies: a, target-upstream: Green}", "switch.target-upstream: 'Green' is not a name"),
        ("{kproxies: [], target-upstream: green}", "switch.kproxies: is empty"),
        ("{kproxies: [a, 'a:19091'], target-upstream: green}", "switch.kproxies: a:19091 is given twice"),
        ("{kproxies: ['a:b:c'], target-upstream: green}", "switch.kproxies: 'a:b:c' is ambiguous"),
        ("{kproxies: {}, target-upstream: green}", "switch.kproxies: is empty; allowed:"),
        ("{kproxies: {dns: a, kubernetes: b}, target-upstream: green}", "switch.kproxies: has dns, kubernetes; allowed:"),
        ("{kproxies: {dns: a, port: 5}, target-upstream: green}", "switch.kproxies: has dns, port; allowed:"),
        ("{kproxies: {namespace: b}, target-upstream: green}", "switch.kproxies: has namespace; allowed:"),
        ("{kproxies: {kubernetes: 'a;b'}, target-upstream: green}", "switch.kproxies.kubernetes: 'a;b' are no labels"),
        ("{kproxies: {kubernetes: }, target-upstream: green}", "switch.kproxies.kubernetes: has no value"),
        ("{kproxies: a, target-upstream: green, hold-seconds: 26}", "switch.hold-seconds: '26' is out of range; allowed: 1s to 25s"),
        ("{kproxies: a, target-upstream: green, max-lag: -1}", "switch.max-lag: '-1'"),
        ("{kproxies: a, target-upstream: green, holds: 2}", "switch.holds: no such key"),
        ("[a]", "switch: is not a mapping"),
    ],
    ids=lambda value: value if value.startswith(("{", "[")) else "",
)  # fmt: skip
def test_mistakes(tmp_path: Path, said: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(tmp_path, f"switch: {said}\n")
    assert any(problem in line for line in caught.value.problems), caught.value.problems
