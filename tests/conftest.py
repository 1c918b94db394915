"""All tests: several processes share them (`-n`), and what they measured is printed at the end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.harness.signals import not_ignored_by_children

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

    from tests.harness.tls import Authority

# Hundreds of processes import the same modules, and each worker rewrites the same assertions. Without bytecode on disk
# each of them compiles everything again, and a kproxy takes twice as long to start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Directories whose files share an expensive fixture, which ends with their last test (its scope is "package").
TOGETHER = ("tests/integration/cluster", "tests/integration/migrate", "tests/oracle", "tests/scenarios")

# The files that take longest, the longest first. They begin first, so that all processes end together.
LONG = (
    "tests/integration/migrate",
    "tests/integration/cluster",
    "tests/scenarios",
    "tests/oracle",
    "tests/integration/test_spark.py",
    "tests/integration/test_page_live.py",
    "tests/integration/test_switched_clients.py",
    "tests/integration/test_spark_notebook.py",
    "tests/integration/test_migrate_plan.py",
    "tests/integration/test_migrate.py",
    "tests/soak/test_forwards.py",
)

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


@pytest.fixture
def hang_ups_reach_children() -> Iterator[None]:
    """For tests that hang up, though they may run under nohup."""
    with not_ignored_by_children(signal.SIGHUP):
        yield


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority of the file's own."""
    from tests.harness.tls import Authority  # its library takes a while to import

    return Authority(tmp_path_factory.mktemp("authority"))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, then whatever needs a cluster, then the rest."""
    items.sort(key=_late)


def _late(item: pytest.Item) -> tuple[int, bool]:
    at = next((at for at, path in enumerate(LONG) if item.nodeid.startswith(path)), len(LONG))
    return at, item.get_closest_marker("integration") is None


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
    """The tests of a file, or of a directory in TOGETHER, run in one process, in the order of the collection."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return next((directory for directory in TOGETHER if file.startswith(f"{directory}/")), file)

    config.option.loadscopereorder = False
    return Together(config, log)
