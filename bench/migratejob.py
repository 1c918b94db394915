"""Processes of the part `migrate`; each prints a line of JSON.

python -m bench.migratejob topic BOOTSTRAP NAME PARTITIONS delete|compact    creates a topic
python -m bench.migratejob gone BOOTSTRAP NAME...                            deletes topics
python -m bench.migratejob fill BOOTSTRAP TOPIC PARTITIONS SIZE CODEC PER_BATCH RECORDS
python -m bench.migratejob worker                                            memory of a Python worker of Spark
python -m bench.migratejob copy SOURCE TARGET NAME TOPIC TARGET_TOPIC        copies as a task of Spark does
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import time
from typing import Any

from bench.machine import rss
from kproxy.migrate.copier import requests
from kproxy.migrate.copier.clusterclient import ClusterClient
from kproxy.migrate.copier.connection import BrokerConnection
from kproxy.migrate.copier.requests import TopicPartition
from kproxy.migrate.copier.state import STATE_PARTITIONS, Job, PartitionState, Slice
from kproxy.protocol.wire.api import ApiKey

_ACKS_MS, _WINDOW = 30_000, 32
# So many batches that are not alike, at most; they are written again and again.
_ALIKE = 2 << 20
_LARGEST = 2 << 20
_SECONDS = 900.0
# What the driver estimates before it knows the records; and after so many rounds the copy makes no progress.
_BYTES_PER_OFFSET, _ROUNDS = 1000.0, 20


def fill(bootstrap: str, topic: str, partitions: int, size: int, codec: str, per_batch: int, records: int) -> Any:
    """Write batches of exactly so many records, the same number to every partition; return their total bytes."""
    made = _batches(size, codec, per_batch, records)
    cluster = ClusterClient(bootstrap)
    written = total = 0
    _wait_for_leaders(cluster, topic, partitions)
    for partition in range(partitions):
        link = cluster.connect_leader(topic, partition)
        version = link.version(ApiKey.PRODUCE)
        for _ in range(records // per_batch // partitions):
            batch = made[written % len(made)]
            while link.in_flight >= _WINDOW:
                _acknowledged(link)
            parts = requests.encode_produce(None, [((topic, partition), [batch])], _ACKS_MS)
            link.send(ApiKey.PRODUCE, version, *parts)
            written += 1
            total += len(batch)
        while link.in_flight:
            _acknowledged(link)
    return {"bytes": total, "records": written * per_batch}


def _wait_for_leaders(cluster: ClusterClient, topic: str, partitions: int) -> None:
    """Wait until brokers lead all partitions; with a thousand new ones this takes a moment."""
    where = [(topic, partition) for partition in range(partitions)]
    until = time.monotonic() + _SECONDS
    while len(cluster.list_offsets(where, requests.LATEST)) < partitions and time.monotonic() < until:
        time.sleep(0.2)


def _acknowledged(link: BrokerConnection) -> None:
    for error, _ in requests.read_produce(link.version(ApiKey.PRODUCE), link.receive()).values():
        if error:
            raise SystemExit(f"the broker refuses a batch: error {error}")


def _batches(size: int, codec: str, per_batch: int, records: int) -> list[bytes]:
    from kproxy.protocol.records.codecs import NAMES
    from kproxy.protocol.records.encoding import ProducerState, RecordEntry, encode_batch, encode_tail

    rng = random.Random(1)
    words = [rng.randbytes(8) for _ in range(500)]
    now = time.time_ns() // 1_000_000
    made: list[bytes] = []
    while len(made) < records // per_batch and len(made) * per_batch * size < _ALIKE:
        entries = []
        for number in range(per_batch):
            value = b"".join(rng.choices(words, k=-(-size // 8)))[:size]
            entries.append(RecordEntry(number, now, encode_tail(b"key-%d" % (number % 100), value)))
        made.append(b"".join(encode_batch(entries, NAMES.index(codec), ProducerState())))
    return made


def copy(source: str, target: str, name: str, topic: str, target_topic: str) -> Any:
    """Copy every partition to its end in rounds, as one task; return CPU-seconds, seconds and the maximum memory."""
    _like_spark()
    from kproxy.migrate.copier.copier import Copier
    from kproxy.migrate.copy.rounds import PartitionBacklog, pack_tasks, slice_size

    at, to = ClusterClient(source), ClusterClient(target)
    ends = at.list_offsets([(topic, partition) for partition in range(at.partition_count(topic))], requests.LATEST)
    job = Job(name, STATE_PARTITIONS)
    copier = Copier(at, to, job)
    states: dict[TopicPartition, PartitionState] = {}
    records = size = rounds = 0
    ways: dict[str, int] = {}
    cpu, began = time.process_time(), time.monotonic()
    while left := [place for place in ends if place not in states or states[place].source_next < ends[place]]:
        rounds += 1
        slices = []
        for place in left:
            state = states.get(place)
            backlog = PartitionBacklog(
                *place, 0 if state is None else state.source_next, ends[place], _BYTES_PER_OFFSET
            )
            most = slice_size(backlog, state, 1 << 62)
            planned = Slice(*place, target_topic, 0, ends[place], most, _SECONDS, state=state, max_batch_size=_LARGEST)
            slices.append((min(most, backlog.size), planned))
        for group in (group for task in pack_tasks(slices, job, 1) for group in task):
            for done in copier.copy(group):
                if done.stuck or done.state is None or rounds > _ROUNDS:
                    raise SystemExit(f"partition {done.partition} of {topic} was not copied: {done.stuck}")
                states[done.topic, done.partition] = done.state
                records, size = records + done.records, size + done.size
                for way, count in done.batch_counts.items():
                    ways[way] = ways.get(way, 0) + count
    return {
        "cpu": time.process_time() - cpu,
        "seconds": time.monotonic() - began,
        "records": records,
        "bytes": size,
        "rss": rss([os.getpid()], "VmHWM"),
        "ways": ways,
        "rounds": rounds,
    }


def _like_spark() -> None:
    """Import the modules that a Python worker of Spark has already imported, where pyspark is installed."""
    with contextlib.suppress(ImportError):
        import pyspark.worker  # noqa: F401  # for its memory


def bare() -> Any:
    _like_spark()
    return {"rss": rss([os.getpid()], "VmHWM"), "pyspark": "pyspark" in sys.modules}


def make(bootstrap: str, name: str, partitions: int, policy: str) -> Any:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined, unused-ignore]  # its types lack it in some versions

    settings = {"cleanup.policy": policy, "max.message.bytes": str(_LARGEST), "file.delete.delay.ms": "0"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)], operation_timeout=60)[name].result(90)
    return {}


def drop(bootstrap: str, names: list[str]) -> Any:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for gone in admin.delete_topics(names, operation_timeout=60).values():
        gone.result(90)
    return {}


def main() -> None:
    match sys.argv[1:]:
        case ["topic", bootstrap, name, partitions, policy]:
            status = make(bootstrap, name, int(partitions), policy)
        case ["gone", bootstrap, *names]:
            status = drop(bootstrap, names)
        case ["fill", bootstrap, topic, partitions, size, codec, per_batch, records]:
            status = fill(bootstrap, topic, int(partitions), int(size), codec, int(per_batch), int(records))
        case ["worker"]:
            status = bare()
        case ["copy", source, target, name, topic, target_topic]:
            status = copy(source, target, name, topic, target_topic)
        case _:
            raise SystemExit(__doc__)
    sys.stdout.write(json.dumps(status) + "\n")


if __name__ == "__main__":
    main()
