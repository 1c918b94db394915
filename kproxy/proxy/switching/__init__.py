"""The switch of a cluster of the configuration from one Kafka cluster to another: a two-phase commit. Pure.

    coordinator   the state machine of the driver: which commands to send, what to write to the journal, when to undo
    participant   the state machine of one cluster in one kproxy: its phases, its commands, their effects
    twophase      the values of the coordinator: plan, state, events, next actions
    parts         some clients of a cluster that are switched by themselves
    asjson        both as JSON: the state file, the bodies of /switch
    writes        which requests are writes
    producers     how a producer writes: plain, idempotent, in transactions
    caps          the newest API versions that clients may use where a cluster can be switched
    userchecks    the check that users can log in to an upstream and have their rights there, as JSON
    logins        how clients log in to each upstream, and whether they still can after a switch
    transactions  error codes for a producer whose transaction began in the former cluster
    clientsoftware  clients by the software that they name, and by their client ids: Streams, Connect, franz-go, …
    doubts        clients that may repeat a write that the broker has already done
    positions     the positions in partitions that a consumer may use after a switch
    requests      the requests that kproxy reads after a switch, and its own responses to some of them
    responses     the responses that kproxy reads after a switch, and its changes to a few of them

A cluster with two upstreams routes its clients to one of them. A switch routes them to the other one, in all kproxies,
so that no write reaches both upstreams, and no write reaches the old upstream after the first one has reached the new.
The driver (`kproxy migrate switch`) is the coordinator; each kproxy is a participant. HOLD is the prepare step: writes
wait. Up to the commit, each participant may abort by itself (its deadline).

    SERVING ──hold──▶ HOLDING ──settled──▶ HELD ──flip──▶ FLIPPED ──commit──▶ COMMITTED ──release──▶ SERVING
       ▲                 │                   │              │                     │
       └──────── undo, or the deadline ──────┴──────────────┘                     │
       └──────── undo with force: the driver knows that no kproxy was released ───┘

 * The driver releases no kproxy before all have committed. A kproxy that has not committed undoes the switch at its
   deadline, which is always safe. A kproxy that has committed cannot know whether others were released, so it waits,
   and logs warnings. No clock, delay or lost message breaks that: deadlines only decide how long writes wait.
 * The state is written before the effect (`kproxy.proxy.app.statedir`); if it cannot be written, the effect is not
   executed. A restart continues from the written state. If an effect fails (a defect), kproxy accepts no further
   command; a restart executes all of it. One step needs no disk: at the deadline kproxy undoes the switch in any case,
   as a restart would that finds the former state and a deadline in the past. Only a commit that may be on the disk,
   although writing it failed, prevents that (`kproxy.proxy.app.statedir`). A restart that finds such a state assumes
   that writes have passed since.
 * A flip is one step of the event loop: it changes the gateway's upstream and cuts the sessions, without a pause.
 * HELD means that no client will repeat a write: no write is without a response, and no client is in doubt (`doubts`).
   A kproxy that was killed does not know its former clients: its next hold waits until they must have given up, unless
   its state was HELD or later, or says that the process ended in good order.
 * Each hold, claim and undo raises the `count` of the state, and each hold has the count that the driver saw. So a
   delayed request has no effect. kproxy does not hold again for a switch that has ended.
 * Drivers die. The next one has a greater `driver`, and claims the switch at each kproxy: from then on, the kproxy
   refuses the former driver, also its delayed requests. Then the driver decides by the replies of all kproxies. If one
   kproxy is lost and the others have committed, only the journal can tell: a driver writes its decision there before it
   releases, and, if it has taken over, before it undoes. The record of the greatest driver counts.
 * One gap remains: a kproxy that loses its `--state-dir`, or a new one whose configuration still names the old
   upstream, routes clients to the old one. The operator must correct `active` after a switch.

Some clients of a cluster, named by their client ids, may be switched by themselves (`parts`). Each unit has its own
state machine, state file, active upstream, and knowledge of its clients' writes and positions
(`kproxy.proxy.cluster.switchableunit`). Listeners, ports and upstreams are the cluster's. A connection belongs to one
unit from its first request to its end, so kproxy reads the client id before it dials, in clusters with parts only. When
a part is made, its open sessions move to it, with their doubts; the file of the cluster names its parts, and is written
last. A part ends only if neither it nor the cluster was switched meanwhile: then all known positions are of one time.
A driver drives units, and sees no difference.

The process around `participant` is `kproxy.proxy.app.switchregistry`, that around `coordinator` is `kproxy migrate
switch`. A model test (tests/unit/proxy/switching/test_model.py) runs both machines against each other for three
kproxies, in every order of messages, deaths and deadlines, and tries the exits from each situation. `make test-matrix`
adds drivers that take over and former ones that live on. The test finds machines that are broken on purpose.
docs/flip.md describes what clients observe.
"""
