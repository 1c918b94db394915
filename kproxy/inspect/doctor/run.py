"""One run of `kproxy doctor`: examine each cluster, diagnose, find a command line that works, report."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from kproxy.base.addressclass import is_loopback
from kproxy.base.diagnostic import CLEAN, ERRORS, NOT_CHECKED
from kproxy.base.printable import one_line
from kproxy.config import ClusterConfig, Config, load
from kproxy.config.clientfile import read_client_use
from kproxy.config.commandline import CommandLine
from kproxy.inspect.doctor import asjson, direct_access, picture, report
from kproxy.inspect.doctor.command_trials import find_working_line, with_right_tls
from kproxy.inspect.doctor.contact import ContactMaker
from kproxy.inspect.doctor.diagnosis import diagnose
from kproxy.inspect.doctor.evidence import (
    ClientIntent,
    EndedRoute,
    Examination,
    ExaminationStep,
    NeighbourKproxy,
    RefusingKproxy,
)
from kproxy.inspect.doctor.examiner import examine
from kproxy.inspect.doctor.progress import StepProgress
from kproxy.inspect.doctor.report import DoctorReport
from kproxy.protocol.rewrite.endpoints import NodeKind
from kproxy.proxy.admin import neighbour
from kproxy.proxy.admin.client import AdminClient
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.relay.loop import RelayLoop
from kproxy.proxy.relay.selector import RelaySelector
from kproxy.proxy.status.model import ClusterStatus

# How often it looks again with TLS as it must be: whether there is TLS, and for which name the certificates are.
_CORRECTIONS = 2
# For the answer of a kproxy on this machine, in seconds: an addition to what brokers say.
_ADMIN_SECONDS = 2.0
_LONGEST_PROBLEM = 1000  # characters


@dataclass
class DoctorRun:
    """One run."""

    line: CommandLine
    """The options that the user gave."""
    environ: Mapping[str, str]
    """The source of secrets."""
    defaults: Mapping[str, str]
    intent: ClientIntent
    on_step: Callable[[ExaminationStep], None]

    def __post_init__(self) -> None:
        """Load the configuration. Raises ConfigError."""
        self._config = self._load(self.line)
        via = self._config.clusters[0].via
        # A variable has it: what is printed must, too.
        if via and self.line.file is None and "via" not in self.line.options:
            self.line = self.line.with_options(via=tuple(hop.url for hop in via))

    def _load(self, line: CommandLine) -> Config:
        return load(line.options, self.environ, line.file, self.defaults)

    def run(self) -> list[DoctorReport]:
        """Return the report of each cluster.

        Raises ConfigError.
        """
        # What the trial logs is in the report, where it matters.
        logging.getLogger("kproxy").addHandler(logging.NullHandler())
        logging.getLogger("kproxy").propagate = False
        selector = RelaySelector()
        with asyncio.Runner(loop_factory=lambda: RelayLoop(selector)) as runner:
            return runner.run(self._examine_all(selector))

    async def _examine_all(self, selector: RelaySelector) -> list[DoctorReport]:
        return [
            await self._examine_cluster(index, cluster, selector) for index, cluster in enumerate(self._config.clusters)
        ]

    async def _examine_cluster(self, index: int, cluster: ClusterConfig, selector: RelaySelector) -> DoctorReport:
        steps: list[ExaminationStep] = []

        def on_step(step: ExaminationStep) -> None:
            steps.append(step)
            self.on_step(step)

        def load_one(line: CommandLine) -> ClusterConfig:
            return self._load(line).clusters[index]

        intent = _intent_of(cluster, self.intent)
        kproxy_options = direct_access.kproxy_only_options(cluster)

        async def examine_with(
            line: CommandLine, config: ClusterConfig, contacts: ContactMaker, of_nodes: ContactMaker
        ) -> Examination:
            first = await examine(config, contacts, on_step, intent, of_nodes)
            served = await self._served_here()
            first = replace(
                first,
                kproxy_options=kproxy_options,
                neighbour=self._neighbour(first, served),
                refusing_kproxy=self._refusing_kproxy(first, served),
                ended_routes=tuple(self._ended_routes(first, served)),
            )
            if not kproxy_options or first.answering is None:
                return first
            first = replace(first, direct_contacts=await direct_access.contacts_of_a_client(config, first, tasks))
            return first if direct_access.is_reached(first) else replace(first, exec_words=(*line.words("exec"), "--"))

        line, config, again = self.line, cluster, None
        async with asyncio.TaskGroup() as tasks, contextlib.AsyncExitStack() as closing:
            contacts = ContactMaker(config, tasks, on_step)
            closing.push_async_callback(contacts.close)
            first = await examine_with(line, config, contacts, contacts)
            findings = diagnose(first)
            for _ in range(_CORRECTIONS):
                corrected = with_right_tls(again or first, line)
                if corrected is None:
                    break
                # Examine as a client would that has fixed this.
                right = load_one(corrected)
                before, contacts = contacts, ContactMaker(right, tasks, on_step)
                closing.push_async_callback(contacts.close)
                # Of the nodes, a client expects what they advertise, and not the name in the line.
                again = await examine_with(corrected, right, contacts, before if right.tls == config.tls else contacts)
                line, config = corrected, right
                known_faults = {finding.fault for finding in findings}
                findings += [
                    finding for finding in diagnose(again) if finding.fault not in known_faults or finding.subjects
                ]
            examined = tuple(steps)
            outcome, last = None, again or first
            if any(finding.is_error for finding in findings) or (
                last.kproxy_options and direct_access.is_reached(last) is not True
            ):
                outcome = await find_working_line(last, line, load_one, selector)
        return DoctorReport(cluster.name, first, tuple(findings), outcome, examined, again, line)

    async def _served_here(self) -> Sequence[ClusterStatus]:
        """Return the clusters of the kproxy on this machine; none if no kproxy answers."""
        if self._config.admin is None:
            return ()
        try:
            client = AdminClient(self._config.admin, self._config.admin_token, _ADMIN_SECONDS)
        except ValueError:  # a token that cannot be one
            return ()
        return await asyncio.to_thread(neighbour.served_clusters_if_running, client)

    def _refusing_kproxy(self, examination: Examination, served: Sequence[ClusterStatus]) -> RefusingKproxy | None:
        """Return the kproxy on this machine if it refuses the cluster, because it serves one with another id."""
        addresses = [contact.address for contact in examination.bootstrap]
        for cluster in served:
            of_brokers = cluster.via == examination.via and not set(cluster.bootstrap_servers).isdisjoint(
                map(str, addresses)
            )
            is_own = not examination.via and any(neighbour.cluster_at(address, [cluster]) for address in addresses)
            if cluster.replaced_by is not None and (of_brokers or is_own):
                return RefusingKproxy(str(self._config.admin), one_line(cluster.problem or "", _LONGEST_PROBLEM))
        return None

    def _ended_routes(self, examination: Examination, served: Sequence[ClusterStatus]) -> Iterator[EndedRoute]:
        """Yield the addresses that no longer lead to a node, as the kproxy on this machine knows them."""
        servers = {str(contact.name) for contact in examination.bootstrap}
        cluster_id = None if examination.answering is None else examination.answering.cluster_id
        for cluster in served:
            if cluster.cluster_id != cluster_id if cluster_id else servers.isdisjoint(cluster.bootstrap_servers):
                continue
            for node in cluster.present:
                if node.problem is None or node.dial is None or node.lost_since is None or node.route == "advertised":
                    continue
                key, problem = NodeKey(NodeKind(node.kind), node.id), one_line(node.problem, _LONGEST_PROBLEM)
                yield EndedRoute(str(self._config.admin), key, one_line(node.dial, 300), node.lost_since, problem)

    def _neighbour(self, examination: Examination, served: Sequence[ClusterStatus]) -> NeighbourKproxy | None:
        """Return the kproxy on this machine that answered in place of the brokers.

        It must confirm that each advertised address is one of its own.
        """
        if examination.via or examination.answering is None or not is_loopback(examination.answering.address.host):
            return None
        addresses = [examination.answering.address, *[contact.address for contact in examination.nodes]]
        clusters = [neighbour.cluster_at(address, served) for address in addresses]
        cluster = clusters[0]
        if (
            cluster is None
            or cluster.cluster_id != examination.answering.cluster_id
            or any(cluster_status != cluster for cluster_status in clusters)
        ):
            return None
        return NeighbourKproxy(str(self._config.admin), cluster.bootstrap_servers, cluster.via)


def _intent_of(cluster: ClusterConfig, intent: ClientIntent) -> ClientIntent:
    """Return what the client is going to do: what the user names, else what its client.properties shows."""
    if cluster.client_config is None or intent.group is not None or intent.acks is not None:
        return intent
    use = read_client_use(cluster.client_config)
    # The acknowledgements of a producer are about a topic.
    return replace(intent, group=use.group, acks=use.acks if intent.topic is not None else None)


def run(
    line: CommandLine,
    environ: Mapping[str, str],
    defaults: Mapping[str, str],
    *,
    intent: ClientIntent,
    as_json: bool,
    svg: Path | None,
    verbose: bool = False,
) -> int:
    """Examine, print, and return the exit code.

    `verbose`: print each step. Raises ConfigError.
    """
    progress = StepProgress(verbose)
    on_step = (lambda _: None) if as_json else progress.show  # JSON has all steps
    reports = DoctorRun(line, environ, defaults, intent, on_step).run()
    progress.finish()
    if as_json:
        click.echo(asjson.as_json(reports))
    for cluster_report in reports:
        if svg is not None:
            _write(svg if len(reports) == 1 else svg.with_stem(f"{svg.stem}-{cluster_report.name}"), cluster_report)
        if not as_json:
            for text in report.text(cluster_report, fancy=_can_print_lines()):
                click.echo(text)
    if all(cluster_report.healthy for cluster_report in reports):
        return CLEAN
    return ERRORS if any(cluster_report.problems for cluster_report in reports) else NOT_CHECKED


def _write(path: Path, report_of_cluster: DoctorReport) -> None:
    verdict = "nothing is wrong" if report_of_cluster.healthy else f"{len(report_of_cluster.problems)} problems"
    servers = ", ".join(str(contact.name) for contact in report_of_cluster.examination.bootstrap)
    path.write_text(picture.svg(report_of_cluster.examination, f"kproxy doctor {servers}: {verdict}"), "utf-8")


def _can_print_lines() -> bool:
    """Return True if standard output can show line-drawing characters."""
    try:
        "│├▶✓✗".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
