"""kproxy: a local Kafka proxy that makes unreachable advertised broker addresses just work.

Rooms, from top to bottom. A room may import from rooms below it only; `make check` enforces this:

    cli          commands, exit codes, what a person reads
    spark        kproxy beside Spark: a proxy on the driver's host and on each executor's
    app          the main process: its clusters, signals, drain
    demo         the story that `kproxy demo` tells
    workers      which process carries the sessions
    devcluster   a real local Kafka cluster whose advertised names resolve nowhere (demo and tests)
    cluster      one cluster: its nodes, their local ports, its sessions
    admin        HTTP for operators: metrics, health, status
    sasl         logs in to brokers for the client
    ask          kproxy's own questions to brokers
    relay        one session: matches requests and responses, moves the bytes
    rewrite      finds and replaces the addresses inside responses
    tls          TLS to brokers and from clients
    wire         the Kafka protocol, sans-IO: API keys, versions, message definitions
    metrics      each metric name and label
    config       each option, declared once
    dial         connects to an upstream address
    status       the state of a kproxy as one value
    ephemeral    which local ports the system has given to connections
    java         finds Java on this machine
    address      a host and a port
    errors       the exception classes: whose fault an error is
    process      tells processes apart
    packages     kproxy's own name among packages, for advice to install something
    compiled     whether the data plane is compiled, and KPROXY_PURE
    printable    escapes text from elsewhere

docs/architecture.md describes the rooms, and defines the words of this code base.
"""

import os as _os

if _os.environ.get("KPROXY_PURE", "") not in ("", "0"):
    from kproxy.base import compiled

    compiled.leave_out()


def __getattr__(name: str) -> str:
    """`kproxy.__version__`, looked up when asked for: reading the metadata takes a third of a start-up."""
    if name != "__version__":
        raise AttributeError(f"module 'kproxy' has no attribute '{name}'")
    from importlib.metadata import PackageNotFoundError, version

    from kproxy.base.packages import DISTRIBUTION

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"
