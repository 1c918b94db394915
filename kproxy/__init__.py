"""kproxy: a local Kafka proxy that makes unreachable advertised broker addresses just work.

Rooms, top to bottom; imports point down only (`make check` enforces it):

    cli          commands, exit codes, what a person reads
    spark        beside Spark: a proxy on the driver's host and on each executor's
    app          wiring: one process, its clusters, signals, drain
    devcluster   a real local Kafka cluster whose advertised names resolve nowhere (demo and tests)
    workers      which process carries the sessions
    cluster      which node has which local port; the listeners
    admin        HTTP: metrics, health, status
    relay        one session: matching requests and responses, moving the bytes
    rewrite      the addresses inside responses: finding and replacing them
    wire         the Kafka protocol, sans-IO: API keys, versions, message definitions
    dial         reaching an upstream address
    metrics      every metric name and label
    config       every option, declared once
    address      a host and a port
    errors       whose fault it is
    packages     those that only some need

The words of this code base are in docs/architecture.md.
"""


def __getattr__(name: str) -> str:
    """`kproxy.__version__`, looked up when asked for: reading the metadata takes a third of a start-up."""
    if name != "__version__":
        raise AttributeError(f"module 'kproxy' has no attribute '{name}'")
    from importlib.metadata import PackageNotFoundError, version

    from kproxy.packages import DISTRIBUTION

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"
