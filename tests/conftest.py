"""All tests: two processes share them (`-n 2`), and what they measured is printed at the end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.harness.signals import not_ignored_by_children

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

# Directories whose files share an expensive fixture. Any other file is as good in one process as in another: the
# cluster of tests/integration is used by nearly all, and both have it.
_TOGETHER = ("tests/oracle", "tests/scenarios")

_FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> list[str]:
    """Lines for the reader of the test's output; add yours."""
    return pytestconfig.stash[_FIGURES]


@pytest.fixture(scope="session", autouse=True)
def signals_reach_children() -> Iterator[None]:
    """However the tests are started, what ends programs ends those that they start. SIGHUP is left alone: under nohup
    a terminal that is closed must not take away half of what they need."""
    with not_ignored_by_children(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        yield


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long is first, so that both processes end together."""
    items.sort(key=lambda item: item.get_closest_marker("integration") is None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["figures"] = session.config.stash[_FIGURES]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    node.config.stash[_FIGURES].extend(getattr(node, "workeroutput", {}).get("figures", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[_FIGURES]:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """The tests of a file, or of a directory in _TOGETHER, run in one process, in the order of the collection."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return next((directory for directory in _TOGETHER if file.startswith(f"{directory}/")), file)

    config.option.loadscopereorder = False
    return Together(config, log)
