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

The process around `state` is `kproxy.proxy.app.switching`, that around `whole` is `kproxy migrate switch`. A model test
runs both machines against each other in every order, with lost and late messages, deaths and deadlines.
"""
