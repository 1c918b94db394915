"""The set-ups of `tests.harness.listeners`: in each cell a real client shows what is true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.harness.listeners import CELLS, SETUPS, Cell, Made, Setup, stands
from tests.harness.network import unavailable
from tests.scenarios.sites import Site, fails, works

pytestmark = pytest.mark.integration

each = pytest.mark.parametrize(
    ("setup", "cell"), CELLS, ids=[f"{setup.name}-{cell.place}-{cell.bootstrap}" for setup, cell in CELLS]
)


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


@each
def test_what_a_client_finds(made: Mapping[str, Made], setup: Setup, cell: Cell) -> None:
    """It sends records and reads them back, or it cannot."""
    here = made[setup.name]
    if cell.fault is None:
        works(here.hosts[cell.place], "librdkafka", site(here), bootstrap=cell.bootstrap)
    else:
        said = fails(here.hosts[cell.place], "librdkafka", cell.bootstrap, site(here).topic())
        assert setup.told(cell) in said
