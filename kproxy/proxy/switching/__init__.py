"""Switching a cluster of the configuration from one Kafka cluster to another, while its clients go on. Pure.

    state         one cluster of one kproxy: its phases, the commands, what each step asks the process to do
    whole         the switch over all kproxies: whom to ask for what next, what to write down before, when to go back
    parts         some clients of a cluster that are switched by themselves
    plan          what its driver plans, knows, is told and wants
    asjson        the forms of both in JSON: the state file, the bodies of /switch
    writes        which requests are writes
    producers     how a producer writes: plain, idempotent, in transactions
    caps          how high a version clients may use where a cluster can be switched, and what franz-go is told of
    logins        how clients log in to each upstream, and whether they still can after a switch
    transactions  what a producer is told whose transaction was begun in the former cluster
    connect       consumers of a worker of Kafka Connect, by their names
    streams       clients of Kafka Streams, by their names
    doubts        clients that may repeat a write that was done already
    positions     which positions in partitions a consumer may have from the cluster that it speaks to now
    requests      what kproxy reads of requests after a switch, and answers to some itself
    responses     what kproxy reads in responses after a switch, and changes in a few

A cluster with two upstreams leads its clients to one of them. A switch leads them to the other one, in all kproxies,
so that no write reaches both upstreams, and none the old one after the first has reached the new one.

    SERVING ──hold──▶ HOLDING ──settled──▶ HELD ──flip──▶ FLIPPED ──commit──▶ COMMITTED ──release──▶ SERVING
       ▲                 │                   │              │                     │
       └──────── undo, or the deadline ──────┴──────────────┘                     │
       └──────── undo with force: the driver knows that no kproxy was released ───┘

 * The driver releases no kproxy before all have committed. One that has not committed goes back at its deadline, which
   is always right. One that has committed cannot know, so it waits, and warns loudly. No clock, delay or lost message
   breaks that: deadlines only decide how long writes wait.
 * The state is written before the effect (`kproxy.proxy.app.statedir`); what cannot be written is not done. A restart
   goes on from there. If an effect fails (a defect), the kproxy obeys no further command; a restart does all of it.
   One step needs no disk: at the deadline kproxy goes back in any case, as a restart would that finds the former state
   and its deadline behind it. Only a commit that may be on the disk, although writing it failed, holds it
   (`kproxy.proxy.app.statewriter`). A restart that finds such a state assumes that writes have passed since.
 * A flip is one step of the event loop: it leads the gateway elsewhere and cuts the sessions, without a pause.
 * HELD means that no client will repeat a write: no write is unanswered, and no client is in doubt (`doubts`). A
   kproxy that was killed does not know its former clients: its next hold waits until they must have given up, unless
   its state was HELD or later, or says that the process ended in good order.
 * Each hold, claim and undo raises the `count` of the state, and each hold names the count that the driver saw. So a
   request that was lost, and arrives after all, has no effect. kproxy does not hold again for a switch that has ended.
 * Drivers die. The next one has a greater `driver`, and claims the switch at each kproxy: from then on, the kproxy
   does not obey the former one, whatever is still on its way. Then the driver decides by what all kproxies answer. If
   one is lost and the others have committed, only the journal can tell: a driver writes its decision there before it
   releases, and, if it has taken over, before it undoes. The record of the greatest driver counts.
 * A wide hole remains: a kproxy that loses its `--state-dir`, or a new one whose configuration still names the old
   upstream, leads clients to the old one. The operator must correct `active` after a switch.

Some clients of a cluster, named by their client ids, may be switched by themselves (`parts`). Each unit has a state
machine and a file of its own, an active upstream, and what kproxy knows of its clients' writes and positions
(`kproxy.proxy.cluster.switchableunit`). Listeners, ports and upstreams are the cluster's. A connection belongs to a
unit from its first request to its end, so kproxy reads the client id before it dials, in clusters with parts only. When
a part is made, its open sessions go over to it, with their doubts; the file of the cluster names its parts, and is
written last. A part ends only if neither it nor the cluster was switched meanwhile: what is known of positions then is
of one time. A driver drives units, and knows no difference.

The process around `state` is `kproxy.proxy.app.switchregistry`, that around `whole` is `kproxy migrate switch`. A model
test (tests/unit/proxy/switching/test_model.py) runs both machines against each other for three kproxies, in every
order of messages, deaths and deadlines, and tries the ways out of each situation. `make test-matrix` adds drivers that
take over and former ones that live on. The test finds machines that are broken on purpose. docs/flip.md says what
clients see.
"""
