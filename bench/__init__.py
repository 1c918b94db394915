"""Benchmarks: kproxy beside other relays, in one run, over real sockets.

__main__    what `python -m bench` does, and its options
machine     the private network namespace, the cores, processes that end with this one
native      the load generator and the stub broker in C: building and running them
peers       what is compared: direct, HAProxy, kproxy, and any other command
loads       the loads, one line each
windows     measuring: interleaved windows, retries, medians
size        start-up, memory, idle connections, slow readers
held        for how long a switch holds writes
heldjob     its producers, as a process
shared      kproxies that share their ports, beside one alone
sharedjob   many librdkafka producers, as a process
fleet       the driver of a switch with many kproxies
fleetjob    these, simulated, as a process
tls         TLS to the broker
upstreams   a cluster that can be switched, and one after a switch, beside a plain one
clients     real clients and real brokers
librdkafka  one of them, as a process
records     what batches cost that are copied to another cluster
migrate     copying topics to another cluster, beside MirrorMaker 2
migratejob  the copier, and what fills topics, as processes
verify      verifying such a copy
verifyjob   the verifications, as a process
mirrormaker MirrorMaker 2: a Connect worker
report      the result as JSON and as text
bars        what kproxy is meant to reach, and whether it does
tables      the tables of docs/performance.md
picture     the picture of docs/performance.md
"""
