"""The main process of kproxy, from its configuration to its exit code.

    main            connects the parts on one event loop, the admin endpoint too
    clusters        the clusters that are served, and their background tasks
    switchregistry  the switches of clusters that have two upstreams, as the admin endpoint sees them
    unitswitch      the switch of one unit: its events, timers and effects, each step written down first
    statedir        what is written down: `--state-dir`
    userchecks      the checks before a switch that users can log in to the other cluster
    effects         what a switch does to clusters and sessions
    control         how the process ends: signals, `--exit-with`, `/quit`, drain
    reload          takes over a new configuration while kproxy runs, and notices changed files
    exitconditions  the conditions that `--exit-with` waits for
    exec            `kproxy exec`: runs a command, with its environment, signals and exit code
    logs            the log: lines for people or JSON
    stderr          the stderr of a running kproxy, which a thread writes
    nodedisplay     the nodes of a cluster at start: a table, a list on a narrow terminal, or log lines
    neighbours      warns if a bootstrap server is a port of another kproxy
    nextstep        the command lines that help where a broker cannot be reached
    tapoutput       what `kproxy tap` displays
    pcap            what `kproxy tap --pcap` writes: the packets of connections that had the frames
    pcapng          the blocks of a capture file, and the packets in it
    preflight       what `kproxy config check` examines beyond the file

A command imports these modules only when it needs them: `kproxy --help` needs none.

Start
-----

 1. `kproxy.config` makes the `Config`. The `Gateway` of each cluster binds its bootstrap listener. If the port is
    taken, kproxy ends with one line.
 2. `Explorer.explore` asks all bootstrap servers at once: which nodes exist, which cluster it is, and which node
    answers. kproxy asks as an ordinary client, and logs in first with `--sasl`. One second after the first answer, it
    continues without the other servers. While no server answers, it asks again, with growing pauses. If the servers
    belong to different clusters, kproxy logs an error that names them, and serves no client. Each node gets a local
    port with a listener. kproxy dials for no client before this is done.
 3. kproxy tries each node along its routes: the address of a matching `--map` and no other; else the advertised
    address, then each address that turned out to be this node.
 4. kproxy displays the result: a table on a terminal (a list on a narrow one), log lines elsewhere. It names each node
    that it cannot reach, with the reason, and logs once what to do, with the command lines for it (`nextstep`). The
    other nodes work. kproxy tries such a node again in the background, and also nodes that become known later.

Some brokers answer authenticated clients only. Without credentials for them, kproxy learns the nodes from the Metadata
response to the first client.

Stop
----

SIGTERM or Ctrl-C starts the stop. `/readyz` then answers no, and the listeners close. kproxy closes each session when
it has nothing in flight, or after `--drain-timeout`. The conditions of `--exit-with`, `POST /quit`, and a SIGHUP that
does not reload (unless it is ignored, as under nohup) start the same stop. A drain covers the sessions that one cluster
has at that moment. Several callers may ask for drains, and each is notified when its own is done. A second SIGTERM or
Ctrl-C ends the process at once.

Reload
------

A `Config` is frozen. A reload makes another one, and each part that holds one is given the next one (`reconfigure`).

 1. `reload` reads all sources in a thread, with what `config check` examines, and makes the TLS contexts. A new
    cluster binds its ports. Nothing that can fail comes later.
 2. `kproxy.config.changes` compares. Each option declares whether it is live, and which sessions it affects. One
    difference that needs a restart refuses all of it.
 3. Without a pause in between, each changed `Gateway` passes its configuration on to the acceptor, the explorer and the
    `NodeDialer`. Listeners and topology stay. The dialer returns a predicate: which session the change affects, by its
    node and its dial address. kproxy forgets known addresses that are no longer used; it asks the brokers about all
    else anyway at each dial.
 4. kproxy drains these sessions, and dials once more for a client whose connection was being opened. Then it explores
    the cluster again. What `--via ssh://…` keeps open is closed after the drain.

A session never changes its route: it stays as it was opened, or kproxy drains it. A removed cluster keeps its
topology, without listeners, until its sessions have ended: kproxy still rewrites their responses, and closes a session
with a response that names an unknown node. Upstreams come and go by a reload, except the one that clients are routed
to: it stays, perhaps under another name (`kproxy.config.changes.successors`).

Log
---

A thread writes the log to stderr (`stderr`). So a reader that stops (a full pipe or disk, Ctrl-S on a terminal) delays
neither clients nor the end. Whatever else the process prints to stderr is written in the same way. A million characters
wait for the reader; beyond, kproxy drops lines, counts them, and writes their number in their place. At its end, kproxy
waits up to two seconds for a reader.

No peer can fill the log (`kproxy.base.repeats`): the same line is written once in 30 s, with the number of those left
out, which is written also if no further line comes. Where a peer can cause a line at will, and choose what is in it,
the code says what the line is `about` (an address or a node, and a reason), and one line is written for each of these.
A thousand are remembered; of more, only the number is written. The last lines on the status page follow the same rule.
Code that logs because of what a peer did uses `about`.
"""
