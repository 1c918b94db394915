"""The watch for upstream names in what clients are sent finds them when they are there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.dev.devcluster import DevCluster
from tests.harness.clients.frames import Frames, metadata
from tests.harness.process import Kproxy, wait_until
from tests.harness.topics import create_topic, unique

pytestmark = pytest.mark.integration


def test_text_that_a_client_is_sent_is_found(cluster: DevCluster, tmp_path: Path) -> None:
    """A topic's name stands in for an address: it is certain to be in the answer."""
    topic = create_topic(cluster.direct_bootstrap, 1, 1)
    kproxy = Kproxy(tmp_path, cluster.bootstrap, forbidden=[unique("never"), topic])
    try:
        assert not kproxy.leaks()
        with Frames(kproxy.bootstrap) as frames:
            frames.ask(metadata(1, [topic]))
        assert wait_until(kproxy.leaks, "the watch finds the topic's name").startswith(f"{topic} in ")
    finally:
        with pytest.raises(AssertionError, match=f"{topic} in "):
            kproxy.stop()


_TWO_SENDS = """
import asyncio, socket, sys
from pathlib import Path
from tests.harness.programs.watched import watch
watch(Path(sys.argv[1]), [b"cluster.internal"])
from kproxy.base.address import Address
from kproxy.proxy.cluster.listeners import Listeners

async def main():
    accepted = asyncio.get_running_loop().create_future()
    listeners = Listeners(Address("127.0.0.1", 0), lambda client, *_: accepted.set_result(client))
    with socket.create_connection(("127.0.0.1", listeners.bind(None, 0).port)):
        with await accepted as client:
            for part in sys.argv[2:]:
                client.send(part.encode())
    listeners.close_all()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        (["kafka-1.cluster.internal:9092"], True),
        (["kafka-1.clus", "ter.internal:9092"], True),
        (["kafka-1.cluster.interna", "l", ":9092"], True),
        ([*"cluster.internal"], True),
        (["kafka-1.cluster", "-internal:9092"], False),
    ],
)
def test_text_that_is_sent_in_parts_is_found(tmp_path: Path, parts: list[str], found: bool) -> None:
    findings = tmp_path / "findings"
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", _TWO_SENDS, str(findings), *parts], cwd=root, check=True, timeout=60)
    assert findings.exists() == found
