"""The formatted storage of a controller: by Kafka's own tool the first time, and by a copy of its output after that.

The tool takes a JVM, more than half a second. Besides `meta.properties` it writes a checkpoint: the feature levels with
which the cluster begins (KIP-778), since Kafka 4.4 as the first snapshot of the metadata. They depend on the version of
Kafka and on the settings, and name no cluster, so they are cached among the jars, and removed with them.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kproxy.base.errors import UpstreamError
from kproxy.dev.devcluster import properties as props
from kproxy.dev.devcluster.node import NodeProcess
from kproxy.dev.devcluster.tools import Programs

_META = "meta.properties"
_CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
_CHECKPOINT_BEFORE_4_4 = "bootstrap.checkpoint"
# Settings that differ between clusters, and that feature levels do not depend on.
_OF_ONE_CLUSTER = ("node.id", "log.dirs", "listeners", "advertised.listeners", "controller.quorum.voters")


def format_storage(programs: Programs, node: NodeProcess, settings: Mapping[str, str], cluster_id: str) -> None:
    """Write the settings of a controller and format its data directory, which is empty.

    Raises UpstreamError with the message of Kafka's tool if it refuses the settings.
    """
    file = node.write(settings)
    cached = _cached_checkpoint(programs, settings)
    checkpoint = node.data / (_CHECKPOINT_BEFORE_4_4 if programs.is_before(4, 4) else _CHECKPOINT)
    if cached.exists() and cached.stat().st_size:  # a machine that lost its power may have left an empty file
        checkpoint.parent.mkdir(exist_ok=True)
        shutil.copyfile(cached, checkpoint)
        (node.data / _META).write_text(props.render(props.meta_properties(cluster_id, node.id)))
        return
    done = programs.run("kafka-storage", "format", "-t", cluster_id, "-c", str(file))
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()
        raise UpstreamError("other", f"Kafka's storage tool failed: {output[0]}")
    # If a version of Kafka writes more files than these, nothing is cached.
    if {path for path in node.data.rglob("*") if path.is_file()} == {checkpoint, node.data / _META}:
        with suppress(OSError):  # a cache that cannot be written
            _cache_checkpoint(checkpoint, cached)


def _cached_checkpoint(programs: Programs, settings: Mapping[str, str]) -> Path:
    feature_settings = sorted((key, value) for key, value in settings.items() if key not in _OF_ONE_CLUSTER)
    return programs.jars / f"bootstrap-{hashlib.sha256(repr(feature_settings).encode()).hexdigest()[:16]}.checkpoint"


def _cache_checkpoint(made: Path, cached: Path) -> None:
    """Copy the file to the cache atomically."""
    with tempfile.TemporaryDirectory(dir=cached.parent, prefix=f".{cached.name}.") as directory:
        shutil.copyfile(made, Path(directory, cached.name)).rename(cached)
