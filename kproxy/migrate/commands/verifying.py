"""The command `verify`, and the function behind it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.base.errors import ConfigError

if TYPE_CHECKING:
    from kproxy.migrate.copier.cluster import Cluster
    from kproxy.migrate.copier.statetopic import StateTopic
    from kproxy.migrate.verify.behind import Reached
    from kproxy.migrate.verify.results import Kept, Report, Sample

Where = tuple[str, int]

# While a leader moves, in seconds.
_PATIENCE = 30.0


def verify(
    spark: Any,
    source: str,
    target: str,
    name: str,
    *,
    sample: float | None = None,
    show_bytes: bool = False,
    again: bool = False,
    lag: Sequence[Sample] = (),
    others_write: bool | None = None,
    said: Callable[[str], None] = lambda _: None,
) -> Report:
    """Compare what the migration with this name has copied and not verified yet, or with `again` whatever it has
    copied, and keep the result on the target, unless it is a sampling. `others_write`: clients that were led to the
    target have written there, and their records are no difference; None: as the journal of switches says. Raises
    KproxyError."""
    from kproxy.migrate.clusters.identities import begun
    from kproxy.migrate.copier.cluster import Cluster
    from kproxy.migrate.copier.statetopic import copied, read_all
    from kproxy.migrate.verify.results import kept_in
    from kproxy.migrate.verify.verify import Verification

    in_parts = _clients_write(target, name)[0] if others_write is None else others_write
    cluster = Cluster(target)
    try:
        topic = read_all(cluster, name)
        values = topic.values

        def save(now: Mapping[Where, Kept]) -> None:
            _keep(target, name, len(topic.logs), now)

        run = Verification(
            spark, source, target, share=sample, show_bytes=show_bytes, again=again, save=save, said=said,
            others_write=in_parts, clients_write=lambda: in_parts or any(_clients_write(target, name)),
            reached=lambda: _reached(cluster, topic),
        )  # fmt: skip
        return run.run(name, copied(values), kept_in(values), lag, begun(values))
    finally:
        cluster.close()


def _clients_write(target: str, name: str) -> tuple[bool, bool]:
    """Whether clients of parts may have written to the target, among what is copied there, and whether all clients are
    there now, as the journal of switches says."""
    from kproxy.migrate.journal.switch import last_switch

    last = last_switch(target, name)
    if last is None:
        return False, False
    return any(one.writes for one in (*last.parts, *last.there)), last.moved


def _reached(cluster: Cluster, topic: StateTopic) -> dict[Where, Reached]:
    """How far partitions of the target are copied by now. Raises UpstreamError and WireError."""
    from kproxy.migrate.clusters.identities import states_in
    from kproxy.migrate.copier.patience import insist
    from kproxy.migrate.verify.behind import Reached

    insist(cluster, topic.read, _PATIENCE)
    states = states_in(topic.values)
    return {(state.target_topic, partition): Reached.of(state) for (_, partition), state in states.items()}


def _keep(target: str, name: str, partitions: int, now: Mapping[Where, Kept]) -> None:
    """Write what is verified now to the state topic."""
    import time

    from kproxy.migrate.copier.slices import Job
    from kproxy.migrate.copier.state import topic_of
    from kproxy.migrate.journal.driver import tell
    from kproxy.migrate.verify.results import name_of

    at = time.time_ns() // 1_000_000
    records = {name_of(where): kept.to_record(at) for where, kept in now.items()}
    tell(target, Job(name, topic_of(name), partitions), records, "verify")


def _lag(target: str, name: str) -> list[Sample]:
    """How far the copy was behind, as its driver has noted."""
    from kproxy.migrate.copier.cluster import Cluster
    from kproxy.migrate.copier.statetopic import read_all
    from kproxy.migrate.journal.driver import JOB
    from kproxy.migrate.verify.results import Sample

    cluster = Cluster(target)
    try:
        value = read_all(cluster, name, JOB.__eq__).values.get(JOB, b"{}")
    finally:
        cluster.close()
    try:
        return [Sample(int(at), int(lag)) for at, lag in json.loads(value).get("lag", [])]
    except (ValueError, TypeError, AttributeError):  # it is for a picture
        return []


@click.command("verify")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option(
    "--sample", type=click.FloatRange(0, 1, min_open=True), metavar="SHARE",
    help="Compare only this share of the blocks. Nothing counts as verified then.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Compare also what was verified before.")
@click.option("--show-bytes", is_flag=True, help="Show the first bytes of keys and values that differ.")
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Also write an HTML report."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--master", metavar="URL", help="Spark's master. [default: spark-submit's, else local[*]]")
def verify_command(
    file: Path,
    sample: float | None,
    again: bool,
    show_bytes: bool,
    report: Path | None,
    as_json: bool,
    master: str | None,
) -> int:
    """Compare what was copied with the source, record by record.

    \b
      kproxy migrate verify move.yaml --report verified.html

    Spark reads both clusters with its own Kafka source, and compares counts and hashes of keys, values, headers,
    timestamps, order and places. What is verified stays so: the next run compares what was copied since, and with
    --again everything once more. Of what differs, the first record of each partition is named.

    The exit code is 0 if all that was copied is the same, 1 if something differs or could not be compared, and 2 if
    the verification cannot begin.
    """
    from kproxy.migrate.clusters.roads import open_roads
    from kproxy.migrate.copy.sparksession import spark_session
    from kproxy.migrate.spec.document import read
    from kproxy.migrate.verify.report import as_json as said_json
    from kproxy.migrate.verify.report import text
    from kproxy.migrate.verify.reportpage import page

    migration = read(file)
    with (
        spark_session(f"kproxy migrate {migration.name}", master, reads_kafka=True) as spark,
        open_roads(migration, spark) as roads,
    ):
        found = verify(
            spark, roads.source, roads.target, migration.name, sample=sample, show_bytes=show_bytes,
            again=again, lag=_lag(roads.target, migration.name), said=lambda line: click.echo(line, err=True),
        )  # fmt: skip
    if as_json:
        click.echo(json.dumps(said_json(found), indent=2))
    else:
        fancy = "utf" in (sys.stdout.encoding or "").lower()
        for line in text(found, fancy=fancy):
            click.echo(line)
    if report is not None:
        try:
            report.write_text(page(found), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--report {report}: {error.strerror}") from None
    return found.exit_code
