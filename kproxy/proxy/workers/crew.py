"""The workers, as the main process directs them: each client goes to the one that has the fewest, of those that answer;
one that ends is replaced, one that does not answer is ended.

The module has a little over 300 lines: starting, choosing, watching and replacing workers change the same table."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count

from kproxy.base.repeats import about
from kproxy.config import Config
from kproxy.proxy.cluster.door import Visit
from kproxy.proxy.cluster.gateway import Gateway
from kproxy.proxy.cluster.topology import NodeKey
from kproxy.proxy.metrics import Metrics, Numbers
from kproxy.proxy.status.shown import SessionStatus, WorkerStatus
from kproxy.proxy.watch.feed import Feed
from kproxy.proxy.watch.frames import FrameFeed
from kproxy.proxy.workers import answers, messages, told
from kproxy.proxy.workers.forker import Forker
from kproxy.proxy.workers.here import Reconfigured
from kproxy.proxy.workers.member import QUIET, Client, Member
from kproxy.proxy.workers.pulse import TURN, Pauses, turns

log = logging.getLogger(__name__)

# How often the numbers of a worker are asked for beside scrapes, in seconds: what it has not told is lost when it dies.
_COUNT_EVERY = 5.0
# What workers have to end in once they have nothing to do, in seconds.
_END_WITHIN = 5.0
# For how many turns a worker may be silent until it is killed: nothing that it does takes so long. Then its clients
# connect again before their own requests time out (30 s in most clients).
_STUCK = 15
# For how many turns a client waits for a worker to be there.
_HELD = 10
# What a reload waits for the workers, in seconds: they read certificates.
_RECONFIGURE_WITHIN = 10.0
# What is new about a cluster, the workers hear so much later, in seconds.
_NEWS_AFTER = 0.02


class Crew:
    """All workers."""

    def __init__(self, config: Config, metrics: Metrics, tasks: asyncio.TaskGroup) -> None:
        self._config = config
        self._edition = 0  # of the configuration: how often it has changed
        self.forker = Forker()
        self._metrics = metrics
        self._tasks = tasks
        self._gateways: dict[str, Gateway] = {}
        self._workers: dict[int, Member] = {}
        self._held: deque[tuple[int, Client]] = deque()  # clients that no worker can take now, and since which turn
        self._turn = 0
        self._background: list[asyncio.Task[None]] = []
        self._ended = Numbers()  # of workers that are no more
        self._news: set[str] = set()  # clusters of which the workers are to hear
        self._stopping = False
        self._numbers = count(1)
        self._holds: dict[int, str | None] = {}  # the clusters (None: all) that are held, by the number of the hold
        self._there: set[int] = set()  # those of them that nothing is in flight under, and that nobody has released
        self._feed: Feed | None = None  # while somebody looks on
        self._frames: FrameFeed | None = None  # while somebody wants copies of frames
        self._waits: dict[asyncio.Event, Callable[[], bool]] = {}  # what somebody waits for

    def serve(self, gateways: Sequence[Gateway]) -> None:
        """Carry the sessions of these clusters from now on."""
        self._gateways = {gateway.config.name: gateway for gateway in gateways}
        keepers = [self._keep(number) for number in range(1, self._config.workers + 1)]
        background = [*keepers, self.forker.keep(), self._watch(), self._count_now_and_then()]
        self._background = [self._tasks.create_task(one) for one in background]

    async def _keep(self, number: int) -> None:
        """Have a worker of this number, until kproxy stops."""
        pauses = Pauses()
        while not self._stopping:
            await self.forker.there.wait()
            pauses.begin()
            try:
                worker = self._workers[number] = Member(self.forker)
            except OSError as error:
                log.error("a worker cannot be started: %s", error.strerror)
            else:
                try:
                    await worker.listen(self._hear)
                finally:
                    del self._workers[number]
                    back, lost = worker.end()
                    self._ended.add_ended(worker.numbers.last)
                    self._check()
                    self._give(back)
                if not self._stopping and worker.pid:  # else it has never been there, which is said
                    log.error(
                        "worker %d (process %d) has ended, with its %d connections: kproxy starts another",
                        number, worker.pid, lost,
                    )  # fmt: skip
            await pauses.wait()

    async def _watch(self) -> None:
        """Notice what does not answer."""
        async for in_time in turns():
            self._turn += 1
            self.forker.turn(in_time)
            for number, worker in list(self._workers.items()):
                if worker.pulse.turn(in_time):
                    self._notice_silence(number, worker)
            while self._held and self._turn - self._held[0][0] >= _HELD:
                log.error("no worker was available for a connection within %g s: kproxy closed it", _HELD * TURN)
                self._held.popleft()[1].close()

    def _notice_silence(self, number: int, worker: Member) -> None:
        silent = worker.pulse.silent
        if silent == QUIET and worker.started:
            log.warning(
                "worker %d (process %d) has not answered for %g s: new connections go to others",
                number, worker.pid, silent * TURN,
            )  # fmt: skip
            self._give(worker.take_back())
            worker.send(messages.Ping())
            self._check()  # nobody waits for it any more
        elif silent == _STUCK:
            log.error(
                "worker %d (process %d) has not answered for %g s: kproxy kills it, with its %d connections",
                number, worker.pid, silent * TURN, len(worker.clients),
            )  # fmt: skip
            worker.kill()

    def _is_well(self, worker: Member) -> None:
        """It has just started, or answers again."""
        for name in self._gateways:
            worker.send(messages.Changed(name))
        worker.send(messages.Holds(dict(self._holds)))
        worker.send(messages.Watch(self._feed is not None))
        worker.send(messages.Capture(self._frames is not None))
        worker.send(messages.Reconfigure())
        if self._stopping:
            worker.send(messages.Drain())
        held = [client for _, client in self._held]
        self._held.clear()
        self._give(held)

    async def _count_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_COUNT_EVERY)
            self._tell_all(messages.Count())

    def _hear(self, worker: Member, message: object) -> None:  # noqa: C901  # one branch for each message
        if worker.pulse.heard() >= QUIET and worker.started:
            log.warning("process %d, a worker, answers again", worker.pid)
            self._is_well(worker)
        match message:
            case messages.Pong():
                pass
            case messages.Wanted(number, key):
                worker.clients[number].visit.wants(key)
            case messages.Ended(number):
                worker.let_go(number)
                self._check()
            case messages.Settled(number):
                if number in self._holds:  # else that hold was undone meanwhile
                    worker.settled.add(number)
                    self._check()
            case messages.Reconfigured(edition, draining):
                worker.edition, worker.draining = edition, worker.draining + draining
                self._check()
            case messages.Asked(number, question):
                worker.answer(number, self._answer(question))
            case messages.Noted(name, fact):
                self._gateways[name].reach.note(fact)
            case messages.Seen():
                self._pass_on(message)
            case messages.Captured(copied, lost):
                if self._frames is not None:  # else they have come too late
                    self._frames.pass_on(copied, lost)
            case messages.Logged(logger, level, text, what):
                logging.getLogger(logger).log(level, "%s", text, extra=about(*what))
            case messages.Started(pid):
                worker.pid, worker.started = pid, True
                self._is_well(worker)
            case Numbers():
                worker.numbers.has_come(message)
            case messages.Sessions(shown):
                worker.sessions.has_come(shown)

    def _pass_on(self, seen: messages.Seen) -> None:
        if self._feed is not None:  # else it has come too late
            self._feed.pass_on_all(seen.passed, seen.lost)

    def _answer(self, question: object) -> object:
        match question:
            case messages.Configuration():
                return messages.Configured(self._edition, self._config)
            case messages.Look(name):
                return answers.view(self._gateways[name])
            case messages.Claim(name, cluster_id, said_by):
                agreed = self._gateways[name].reach.claim(cluster_id, said_by)
                self.changed(name)
                return agreed
            case messages.Localise():
                return answers.localised(self._gateways[question.cluster], question)
        raise AssertionError(f"unknown question: {question}")

    def changed(self, name: str) -> None:
        """There is something new about this cluster's nodes."""
        # Of what is found out of a hundred nodes at once, a worker hears once: each time it takes all of it.
        if name not in self._news:
            self._news.add(name)
            asyncio.get_running_loop().call_later(_NEWS_AFTER, self._tell_news, name)

    def _tell_news(self, name: str) -> None:
        self._news.discard(name)
        self._tell_all(messages.Changed(name))

    def _tell_all(self, message: object) -> None:
        for worker in self._workers.values():
            if worker.well:
                worker.send(message)

    def carry(self, name: str, client: socket.socket, key: NodeKey | None, host: str, visit: Visit) -> None:
        """Carry a client of this cluster; see `Sessions.carry`."""
        self._give([Client(client, name, key, host, visit)])

    def _give(self, clients: list[Client]) -> None:
        """Each to the worker with the fewest."""
        for client in clients:
            well = [worker for worker in self._workers.values() if worker.well]
            if self._stopping:
                client.close()
            elif well:
                min(well, key=lambda worker: len(worker.clients)).take(client)
            else:
                self._held.append((self._turn, client))

    # What the app asks for

    async def reconfigure(
        self, config: Config, taken: Sequence[Reconfigured], added: Sequence[Gateway], removed: Sequence[str]
    ) -> int:
        """Let all workers, those to come as well, do as this configuration says; return how many sessions are drained
        for it. One that does not answer hears of it when it does."""
        # Those that are removed stay: their last sessions may ask.
        self._gateways |= {gateway.config.name: gateway for gateway in added}
        self._config = config
        self._edition += 1
        for worker in self._workers.values():
            worker.draining = 0
        self._tell_all(messages.Reconfigure())

        def followed() -> bool:
            return all(worker.edition == self._edition for worker in self._workers.values() if worker.well)

        await self._until(followed, _RECONFIGURE_WITHIN)
        return sum(worker.draining for worker in self._workers.values())

    async def metrics(self) -> Metrics:
        """The sums over all processes. Those that have ended do not know which nodes have gone since."""
        for name, gateway in self._gateways.items():
            self._ended.keep_only(name, {key.label for key in gateway.topology.nodes})
        return await told.metrics(list(self._workers.values()), self._metrics, self._ended)

    async def sessions(self) -> Sequence[SessionStatus]:
        """The sessions in all workers, see `Here.sessions`."""
        return await told.sessions(list(self._workers.values()))

    def watch(self, feed: Feed | None) -> None:
        """Tell the feed what passes in all workers, also in those to come; None: no more."""
        self._feed = feed
        self._tell_all(messages.Watch(feed is not None))

    def capture(self, feed: FrameFeed | None) -> None:
        """Give the feed copies of the frames that pass in all workers, also in those to come; None: no more."""
        self._frames = feed
        self._tell_all(messages.Capture(feed is not None))

    def status(self) -> tuple[WorkerStatus, ...]:
        return tuple(
            WorkerStatus(worker=number, pid=worker.pid, answers=worker.well, sessions=len(worker.clients))
            for number, worker in sorted(self._workers.items())
        )

    async def drain(self, seconds: float) -> int:
        """Close each session as soon as nothing is in flight in it, and after so many seconds all; return how many were
        left then. The workers are gone afterwards."""
        self._stopping = True
        for _, client in self._held:
            client.close()
        self._held.clear()
        for worker in self._workers.values():
            worker.send(messages.Drain())
        await self._until(lambda: not any(worker.clients for worker in self._workers.values()), seconds)
        left = sum(len(worker.clients) for worker in self._workers.values())
        for worker in self._workers.values():
            worker.hang_up()
        await self._until(lambda: not any(worker.well for worker in self._workers.values()), _END_WITHIN)
        for worker in self._workers.values():
            worker.kill()
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        return left

    async def hold(self, seconds: float, cluster: str | None = None) -> None:
        """Hold the requests of this cluster's clients, or of all, in all workers; see `Here.hold`."""
        number = next(self._numbers)
        self._holds[number] = cluster
        self._tell_holds()

        def settled() -> bool:
            # One that has not begun has no sessions, and hears of the hold before it is given any.
            return all(number in worker.settled for worker in self._workers.values() if worker.started)

        try:
            if not await self._until(settled, seconds):
                raise TimeoutError
        except BaseException:
            self._end_hold(number)
            raise
        self._there.add(number)

    def release(self, cluster: str | None = None) -> None:
        """Undo one hold."""
        number = next(number for number in self._there if self._holds[number] == cluster)
        self._there.remove(number)
        self._end_hold(number)

    def _end_hold(self, number: int) -> None:
        del self._holds[number]
        for worker in self._workers.values():
            worker.settled.discard(number)
        self._tell_holds()

    def _tell_holds(self) -> None:
        self._tell_all(messages.Holds(dict(self._holds)))

    async def _until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait for that, and at most so long; whether it came."""
        done = asyncio.Event()
        self._waits[done] = holds
        try:
            self._check()
            async with asyncio.timeout(seconds):
                await done.wait()
        except TimeoutError:
            return False
        finally:
            del self._waits[done]
        return True

    def _check(self) -> None:
        """Somebody may have what he waits for."""
        for done, holds in self._waits.items():
            if holds():
                done.set()
