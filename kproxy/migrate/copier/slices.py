"""What a task is given to do, and what it says of it. Both travel between Spark's driver and its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kproxy.migrate.copier.state import PartitionState

# What a topic takes as a batch if nobody said otherwise: the default of max.message.bytes.
DEFAULT_MAX_BATCH = 1_048_588


@dataclass(frozen=True, slots=True)
class Job:
    """What all tasks of a migration have in common. `state_topic` is on the target and has `state_partitions`."""

    name: str
    state_topic: str
    state_partitions: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of one partition of the source: from where the copy of it has got to, up to the offset `upto`, or until
    about `size` bytes or `seconds` are over.

    `begin`: where the copy begins if there is no state yet. `skip_to`: what is before may be left out.
    `state_from`: the task reads its partition of the state topic from this offset on, as the driver has read it up to
    there and found `state`. `sparse`: offsets may be missing, since the topic is compacted, or the user allows it.
    `origin`, `destination`: which topics these are now (`state.identity`). `largest`: what the target takes as a batch,
    in bytes. `rate`: bytes a second, 0 for as fast as can be.
    """

    topic: str
    partition: int
    target_topic: str
    begin: int
    upto: int
    size: int
    seconds: float
    state: PartitionState | None = None
    state_offset: int = 0
    skip_to: int = 0
    allows_gaps: bool = False
    max_batch_size: int = DEFAULT_MAX_BATCH
    rate: float = 0.0
    origin: str = ""
    destination: str = ""


@dataclass(frozen=True, slots=True)
class SliceResult:
    """`state` is what the target has committed, None if nothing; the copy goes on from there.

    `stuck`: why it could not go on, in words. With `final` it does not help to try again. `log_start` and `stable`: of
    the source's partition, when it was last asked, -1 if it was not. `ways`: batches written, by the way they took.
    """

    topic: str
    partition: int
    state: PartitionState | None
    records: int = 0
    size: int = 0
    seconds: float = 0.0
    log_start: int = -1
    stable: int = -1
    stuck: str = ""
    is_final: bool = False
    attempts: int = 1
    batch_counts: Mapping[str, int] = field(default_factory=dict)
