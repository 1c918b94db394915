"""Brokers in a container: `brokers.py COUNT`. Each advertises kafkaN, and listens at port 9090 + N of all addresses."""

from __future__ import annotations

import signal
import sys

from kproxy.dev.devcluster import DevCluster

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with DevCluster(int(sys.argv[1]), advertised="kafka{id}:909{id}", client_bound="0.0.0.0:909{id}", heap="128m"):
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.pause()
