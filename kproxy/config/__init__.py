"""Declaration of each option, and loading of file, environment and flags into one frozen `Config`.

    options       declares every option: two classes with one field for each option
    sasl          the options for logging in
    clientsasl    the options for clients that log in at kproxy
    tls           the options for TLS
    declarations  the words that declare an option
    access        what clients may change: rules, and what follows from them
    kinds         how kproxy reads, prints and describes each kind of value
    hop           `--via`: proxies and SSH servers
    forwardcommand  `--forward-command`: commands that forward ports
    principalrules  `--client-tls-principal-rules`: the users of certificates
    values        port ranges, addresses to advertise, maps
    checks        rules between options
    protocols     SASL_SSL:// before a bootstrap server
    sources       flags and environment variables, and the origin of each value
    yamlfile      the YAML file, with its line numbers, and the upstreams of a cluster in it
    clientfile    a client.properties
    jaas          login modules and their options, in sasl.jaas.config and in JAAS files
    loader        merges file, environment and flags, and reports all mistakes at once
    commandline   options as the words of a command line
    changes       the differences between two configurations, and which of them a reload can apply
    presentation  `config show`, the JSON schema, the table in the documents

This room does no I/O except reading the files that it is given.
"""

from kproxy.config.hop import Hop
from kproxy.config.loader import LoadedConfig, load, read
from kproxy.config.options import ClusterConfig, Config
from kproxy.config.values import Advertise, Map, PortRange

__all__ = ["Advertise", "ClusterConfig", "Config", "Hop", "LoadedConfig", "Map", "PortRange", "load", "read"]
