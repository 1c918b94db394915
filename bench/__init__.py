"""Benchmarks: kproxy beside other relays, in one run, over real sockets.

__main__    the command line of `python -m bench`
machine     the private network namespace, the cores, processes that end with this one
native      the load generator and the stub broker in C: building and running them
peers       the relays that are compared: direct, HAProxy, kproxy, and any other command
loads       the loads, one line each
windows     measuring: interleaved windows, retries, medians
size        start-up, memory, idle connections, slow readers
held        the time for which a switch holds writes
heldjob     its producers, as a process
shared      kproxies that share their ports, compared with a single one
sharedjob   many librdkafka producers, as a process
fleet       the driver of a switch with many kproxies
fleetjob    simulated kproxies for it, as a process
growth      how the own work of plan, copy, verification and switch grows with their size
tls         TLS to the broker
upstreams   a cluster that can be switched, and one after a switch, compared with a plain one
clients     real clients and real brokers
librdkafka  one of these clients, as a process
logins      logins of clients at kproxy: their cost, and whether their time tells who is a user
records     the cost of converting batches for another cluster
migrate     copying topics to another cluster, compared with MirrorMaker 2
migratejob  the copier, and programs that fill topics, as processes
verify      verifying such a copy
verifyjob   the verifications, as a process
mirrormaker MirrorMaker 2: a Connect worker
report      the result as JSON and as text
bars        the targets for kproxy, and whether a run meets them
tables      the tables of docs/performance.md
picture     the picture of docs/performance.md
"""
