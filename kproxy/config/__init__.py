"""Each option, declared once in `options`. File, environment and flags become one frozen `Config`.

    options     the declaration: two models with one field for each option
    sasl        the options for logging in
    tls         the options for TLS
    declaring   the parts of a declaration
    kinds       how kproxy reads, prints and describes each kind of value
    quantities  kinds that are numbers: durations, sizes, counts
    hop         `--via`: proxies and SSH servers
    values      ranges of ports, what to advertise, maps
    checks      rules between options
    protocols   SASL_SSL:// before a bootstrap server
    sources     flags and environment; the origin of each value
    yamlfile    the file, with its line numbers
    upstreams   several Kafka clusters that one cluster can lead to, in the file
    clientfile  a client.properties
    jaas        its sasl.jaas.config
    loading     merges file, environment and flags, and reports all mistakes at once
    changes     what is different between two configurations, and what a reload can take over
    present     `config show`, the JSON schema, the table in the documents

The only I/O of this room is reading the files that it is given.
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
