"""The set-ups of `harness.clusters.listeners`: in each cell a real client shows what is so, and the doctor says it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack

import pytest
from _pytest.mark import ParameterSet

from tests.harness.clusters.listeners import CELLS, SETUPS, Cell, Made, Setup, stands
from tests.harness.network import KPROXY, unavailable
from tests.harness.process import PATIENCE_S
from tests.scenarios.sites import Site, fails, works

pytestmark = pytest.mark.integration

# Of these set-ups the first cell with each fault is tried always; all cells are in the matrix.
QUICK = ("docker-three", "cloud-one")


def named(cells: Iterable[tuple[Setup, Cell]], quick: Collection[str]) -> list[ParameterSet]:
    made, tried = [], set()
    for setup, cell in cells:
        kind = setup.name, cell.fault
        marks = () if setup.name in quick and kind not in tried else pytest.mark.matrix
        tried.add(kind)
        made.append(pytest.param(setup, cell, id=f"{setup.name}-{cell.place}-{cell.bootstrap}", marks=marks))
    return made


@pytest.fixture(scope="module")
def made() -> Iterator[Mapping[str, Made]]:
    """All set-ups, by name. Each stands from when a test first asks for it."""
    if problem := unavailable():
        pytest.skip(problem)
    with ExitStack() as held:

        class Standing(dict[str, Made]):
            def __missing__(self, name: str) -> Made:
                self[name] = held.enter_context(stands(next(one for one in SETUPS if one.name == name)))
                return self[name]

        yield Standing()


def site(made: Made) -> Site:
    return Site(made.broker, made.cluster)


# The verdict of the doctor is held to the same table below.
@pytest.mark.matrix
@pytest.mark.parametrize(("setup", "cell"), named(CELLS, ()))
def test_what_a_client_finds(made: Mapping[str, Made], setup: Setup, cell: Cell) -> None:
    """It sends records and reads them back, or it cannot."""
    here = made[setup.name]
    if cell.fault is None:
        works(here.hosts[cell.place], "librdkafka", site(here), bootstrap=cell.bootstrap)
    else:
        said = fails(here.hosts[cell.place], "librdkafka", cell.bootstrap, site(here).topic())
        assert setup.told(cell) in said


@pytest.mark.parametrize(("setup", "cell"), named(CELLS, QUICK))
def test_what_the_doctor_says(made: Mapping[str, Made], setup: Setup, cell: Cell) -> None:
    """The same as the client finds, and why; and with the line that it prints the client works."""
    here = made[setup.name]
    host = here.hosts[cell.place]
    done = host.run(*KPROXY, "doctor", cell.bootstrap, "--json", timeout=PATIENCE_S)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert [node["advertised"] for node in report["nodes"]] == [setup.told(cell)]
    said = [finding["fault"] for finding in report["findings"]]
    if cell.fault is None:
        assert (done.returncode, report["verdict"]) == (0, "healthy"), said
        return
    assert (done.returncode, report["verdict"]) == (1, "problems")
    assert said[0] == cell.fault.value
    assert report["works_now"]["tried"]
    name, *words = report["works_now"]["command"]
    assert name == "kproxy"
    with host.running(*KPROXY, *words, until="bootstrap.servers=") as log:
        (through,) = re.findall(r"bootstrap\.servers=(\S+)", log())
        works(host, "librdkafka", site(here), bootstrap=through)
