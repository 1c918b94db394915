"""Every option, declared once in `options`: file, environment and flags become one frozen `Config`.

    options     the declaration: two models, one field for each option
    sasl        the part of it that is about logging in
    tls         the part about TLS
    declaring   what a declaration is made of
    kinds       how one kind of value is read, printed and described
    quantities  kinds that are numbers: durations, sizes, counts
    hop         proxies and SSH servers on the way
    values      ranges of ports, what to advertise, maps
    checks      what must hold between options
    protocols   SASL_SSL:// before a bootstrap server
    sources     flags and environment; where a value came from
    yamlfile    the file, with its line numbers
    clientfile  a client.properties
    jaas        its sasl.jaas.config
    loading     merging the three, and every mistake at once
    present     config show, JSON schema, the table of the docs

Owns no I/O but reading the file that it is given.
"""

from kproxy.config.hop import Hop
from kproxy.config.loading import Loaded, load, read
from kproxy.config.options import ClusterConfig, Config
from kproxy.config.present import json_schema, reference_table, show
from kproxy.config.values import Advertise, Map, PortRange

__all__ = [
    "Advertise",
    "ClusterConfig",
    "Config",
    "Hop",
    "Loaded",
    "Map",
    "PortRange",
    "json_schema",
    "load",
    "read",
    "reference_table",
    "show",
]
