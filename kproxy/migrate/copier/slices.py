"""The input and the result of a copy task. Both travel between Spark's driver and its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kproxy.migrate.copier.state import PartitionState

# Maximum size of a batch: the default of max.message.bytes.
DEFAULT_MAX_BATCH = 1_048_588


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of one partition of the source: from the committed position up to the offset `upto`.

    A slice also ends after about `size` bytes or `seconds`.
    """

    topic: str
    partition: int
    target_topic: str
    begin: int
    """Offset at which the copy begins if there is no state yet."""
    upto: int
    size: int
    seconds: float
    state: PartitionState | None = None
    """State of the partition as the driver has read it, or None."""
    state_offset: int = 0
    """Offset in the state topic from which the task reads newer states."""
    skip_to: int = 0
    """The copy may leave out offsets before this one."""
    allows_gaps: bool = False
    """True if offsets may be missing: the topic is compacted, or the user allows gaps."""
    max_batch_size: int = DEFAULT_MAX_BATCH
    """Maximum size of a batch of the target topic, in bytes."""
    rate: float = 0.0
    """Maximum rate in bytes a second; 0 is no limit."""
    origin: str = ""
    """Current identity of the source topic (`state.topic_identity`)."""
    destination: str = ""
    """Current identity of the target topic."""


@dataclass(frozen=True, slots=True)
class SliceResult:
    """The result of copying a slice."""

    topic: str
    partition: int
    state: PartitionState | None
    """State that the target has committed, None if there is none. The copy continues from it."""
    records: int = 0
    size: int = 0
    seconds: float = 0.0
    log_start: int = -1
    """Log start offset of the source partition, -1 if unknown."""
    stable: int = -1
    """Last stable offset of the source partition, -1 if unknown."""
    stuck: str = ""
    """Reason why the copy of this partition could not continue, "" if it could."""
    is_final: bool = False
    """True if another attempt cannot succeed."""
    attempts: int = 1
    batch_counts: Mapping[str, int] = field(default_factory=dict)
    """Number of batches written, by the method that wrote them."""
