"""Facts of a line beside its message: addresses, nodes, topics. Nothing else of a line is ever shown."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from kproxy.base.addressclass import AddressClass, classify

# A match cannot begin within another match's run of characters, so the search is linear.
_ADDRESS = re.compile(
    r"(?<![\w.@%-])(?P<host>\[[0-9A-Fa-f:.]{2,45}(?:%[\w.]{1,20})?\]|[A-Za-z0-9_][\w.-]{0,252})(?P<resolved>/[\w.:<>]{1,64})?:(?P<port>\d{1,5})(?![\w@.]| ms\b)",
    re.ASCII,
)
_ERLANG_PAIR = re.compile(r"\{:?\"([A-Za-z0-9][\w.-]{0,252})\", ?(\d{1,5})\}", re.ASCII)
# As Python shows them; the second is of kafka-python before version 1.4. Later ones show where a host leads beside its name.
_PAIR = re.compile(
    r"(?<!> \[IPv[46] )\('([0-9A-Fa-f.:]{2,45}|[A-Za-z0-9][\w.-]{0,252}(?=', \d{1,5}, <))', (\d{1,5})[,)]", re.ASCII
)
# As Kafka's own Java and Scala show a node.
_HOST_AND_PORT = re.compile(
    r"\bhost[\"']? ?[=:] ?[\"']?([A-Za-z0-9][\w.-]{0,252})(?:/[\w.:-]{1,253})?[\"']?(?: |, ?)[\"']?port[\"']? ?[=:] ?[\"']?(\d{1,5})\b",
    re.ASCII,
)
# As nc and curl show an address, which is the check that kproxy proposes itself.
_HOST_PORT_WORD = re.compile(
    r"(?:onnect to|onnection to|getaddrinfo for host) \"?([A-Za-z0-9][\w.-]{0,252})\"? (?:\([\d.]{7,15}\) )?port (\d{1,5})\b|"
    r" \[([\d.]{7,15})\] (\d{1,5}) \(",
    re.ASCII,
)
_LOOPBACK6 = re.compile(r"(?<![\w:.\]])::1:(\d{1,5})\b")  # as Node.js shows it
# librdkafka cuts the name of a thread, which is an address, and so perhaps its port.
_THREAD = re.compile(r"\[thrd:[^\]]{1,120}\]")
# The end of each line of nginx: its own client, and its own address.
_NGINX = re.compile(r", client: [0-9A-Fa-f.:]{2,45}, server: [^\n]*")
_BARE_IPV6 = re.compile(r"ipv6#(\[[0-9A-Fa-f:.]{2,45}\]:\d{1,5})")
_PAIR_BESIDE_HOST = re.compile(r"> \[IPv[46] \('([0-9A-Fa-f.:]{2,45})', (\d{1,5})")
# librdkafka shows beside a name where it leads.
_CONNECT_TO = re.compile(r"Connect to ipv[46]#(\[[0-9A-Fa-f:.]{2,45}\]:\d{1,5}|[\d.]{7,15}:\d{1,5}) ")
_UNPORTED = re.compile(
    r"(?:UnknownHostException: |\bping: |\] Connection with |ENOTFOUND |EAI_AGAIN |\blookup (?!address |failed )|resolve host |certificate is not valid for '|DNS name matching |"
    r"ost lookup: '|IP address (?=[0-9:])|altnames: (?:IP|Host): |Connecting to |No name matching )"
    r"([A-Za-z0-9_][\w.-]{0,252})",
    re.ASCII,
)
# Go names the resolver that it asked, and both ends of a connection.
_RESOLVER = re.compile(r" on \[?[0-9A-Fa-f.:]{2,45}\]?:53\b")
# The tenth address of the range for Services is the resolver's: kubeadm, k3s, EKS and AKS choose it.
_CLUSTER_RESOLVER = re.compile(r" on (?:10|172|192)\.\d{1,3}\.\d{1,3}\.10:53\b")
_DIALED = re.compile(r"\bdial tcp ([\w.-]{1,253}:\d{1,5}|\[[0-9A-Fa-f:.]{2,45}\]:\d{1,5}): ", re.ASCII)
_LOCAL_END = re.compile(r"(?<=tcp )[\w\[\]%.:-]{3,120} ?-> ?")
# A scheme that the client takes for a part of the name. librdkafka and ruby-kafka put one before an address themselves.
_SCHEME = re.compile(
    r"(?:\blookup |resolve '|ENOTFOUND |EAI_AGAIN |lookup failed for |UnknownHostException: |dial tcp: address |\[)"
    r"([A-Za-z][\w+-]{1,20})://"
)
_PROTOCOL = re.compile(r"\b(sasl_ssl|ssl|sasl_plaintext)://")
_PROTOCOL_SETTING = re.compile(
    r"security[._-]?protocol[\"']?\s{0,3}(?:[=:,]{1,2}>?|>)\s{0,3}[\"']?(SASL_SSL|SASL_PLAINTEXT|SSL|PLAINTEXT)\b",
    re.IGNORECASE,
)
# The file of a source, or a class of Java with its packages: log lines show one with the number of its line.
_SOURCE = re.compile(
    r"\.(?:java|scala|kt|groovy|clj|py|go|js|mjs|ts|c|cc|cpp|h|rs|rb|php|pl|cs|ex|erl|ml|swift)$"
    r"|^(?:[a-z_]\w*\.){2,12}(?:\w+\.){0,3}[A-Z]\w*(?:\$\w*)?$|^(?:[a-z]\.){1,12}[A-Z]\w*$",
    re.ASCII,
)
# What a client is called may look like an address, and is none: Connect names one after its worker's URL.
_NAME_OF_CLIENT = re.compile(r"(?<![a-z])(?:client|group|member|worker)[._]?[iI]d[\"']?[=:] ?[\"']?[^\s,\]\"']{1,200}")
# A list of bootstrap servers is shorter.
_MOST_ADDRESSES = 50
# Python's default format puts the level before the number of the process.
_LEVELS = frozenset(("TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL"))
# A name without a dot before a smaller number is a field of a log and its value, such as `Severity:2`.
_SMALLEST_PORT_OF_A_WORD = 80
_NODE = re.compile(
    r"(?:\bnode (?:with id )?|\bid: ?|node_id=|\bnodeId=|broker_id=|[Bb]roker(?: id)?:? |\bbroker\"?[:=]\"?|:\d{1,5}/)(-?\d{1,10})\b(?!\.|:\d)"
)
# Java numbers its connection to a coordinator by this number less the broker's id.
_COORDINATOR = 2**31 - 1
_LAST_BROKER = _COORDINATOR - 100_000
_TOPIC = re.compile(
    r"(?:[Tt]opic(?:\(s\)|s)? ['\"\[]?|topics: \[(?!Topic authorization )|for topic |with correlation id \d{1,10} : \{|partition )"
    r"([A-Za-z0-9._][A-Za-z0-9._-]{0,248})",
    re.ASCII,
)
_NO_TOPIC = frozenset(("Or", "is", "in", "and", "or", "to", "not", "of", "for", "with", "that", "the", "this", "could", "metadata",
                       "authorization", "partition", "partitions", "was", "has", "on", "be", "are", "may", "from", "id", "may",
                       "as", "when", "if", "because", "by", "an", "it", "we", "you", "no", "does", "will", "being", "been", "than", "while",
                       "error", "load", "list", "a", "cannot", "which", "state", "authorized", "name", "count"))  # fmt: skip
_MECHANISM = re.compile(r"\b(PLAIN|SCRAM-SHA-(?:256|512)|GSSAPI|OAUTHBEARER|AWS_MSK_IAM)\b")
_SETTING = re.compile(
    r"(?<![\w.-])((?:acks|advertised|authorizer|auto|bootstrap|broker|client|compression|config|controller|connections|"
    r"default|delivery|enable|fetch|group|inter|isolation|kafkastore|key|linger|listener|log|max|message|metadata|min|node|"
    r"offset|offsets|partition|principal|process|producer|quorum|reconnect|replica|request|retry|sasl|schema|database|security|send|session|socket|"
    r"ssl|status|transaction|transactional|value|zookeeper)(?:\.[a-z]{2,20}){1,7})(?![\w-]|\.\w)"
)
_NO_SETTING = re.compile(r"No such configuration property: \\?\"([\w.-]{1,80})\\?\"", re.ASCII)
_SETTING_ENDS = frozenset(
    ("acks", "algorithm", "backoff", "bytes", "chain", "class", "config", "connect", "count", "deserializer", "dirs", "endpoints",
     "factor", "factory", "family", "handler", "id", "idempotence", "interval", "isr", "key", "level", "list", "listeners", "lookup",
     "map", "max", "mechanism", "mechanisms", "method", "ms", "name", "names", "partitions", "password", "policy", "port", "protocol",
     "protocols", "provider", "records", "replicas", "requests", "reset", "retries", "roles", "serializer", "servers", "size", "strategy",
     "topic", "topics", "type", "url", "username", "version", "voters", "location")
)  # fmt: skip
_CLIENT = re.compile(r"rdkafka#\w{1,20}-\d{1,9}|clientId=[\w.-]{1,80}", re.ASCII)
_BOOTSTRAP = re.compile(
    r"/bootstrap|bootstrap-|from bootstrap|node_id=bootstrap|bootstrap from \[|ootstrap broker|seed_|seed broker|seed \d|node -|id: -|to bootstrap|seedbroker|broker(?: |\"?[:=] ?\"?)-\d"
    r"|Init Kafka Client|creating kafka client"
)


@dataclass(frozen=True, slots=True)
class LineFacts:
    """Facts of one line. A missing fact is empty or None."""

    address: str = ""
    resolved: str = ""
    """The same address with the IP address to which the client has resolved its name, if the line shows it."""
    node: int | None = None
    topic: str = ""
    mechanism: str = ""
    client: str = ""
    is_coordinator: bool = False
    """True if it is the client's connection to the coordinator of a group or transaction."""
    bootstrap: bool | None = None
    """True if the address is a bootstrap server; None if the line does not show it."""
    scheme: str = ""
    """A scheme such as `PLAINTEXT` that stands in a name that the client has looked up."""
    setting: str = ""
    """The name of the first setting of a client or broker."""
    in_kubernetes: bool = False
    """True if the client has asked the resolver of a Kubernetes cluster: it runs there."""
    protocol: str = ""
    """The client's `security.protocol` in small letters, where the client puts it before the address."""


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """The signs of a client in a text, beside its messages."""

    servers: frozenset[str] = frozenset()
    """The bootstrap servers."""
    marked: frozenset[str] = frozenset()
    """The hosts that a line marks as bootstrap servers."""
    used: frozenset[str] = frozenset()
    """The addresses of connections that were in use before."""
    protocol: str = ""
    """Its `security.protocol` in small letters, if the text sets only one."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """The clients that a broker has answered, and the first line of the text that shows it for each."""


def facts_of(line: str) -> LineFacts:
    """Return the facts of a line."""
    asked_kubernetes = " on " in line and _CLUSTER_RESOLVER.search(line) is not None
    line = without_own_addresses(line)
    named = _NAME_OF_CLIENT.sub("", line) if "d=" in line or "d:" in line or 'd":' in line else line
    line_addresses = ("[thrd:" in named and addresses(_THREAD.sub("", named))) or addresses(named)
    address = line_addresses[0] if line_addresses else ""
    if host_of(address) == "localhost":  # the address to which it leads shows more
        address = next((other for other in line_addresses if other.startswith("[::1]")), address)
    if (
        "dial tcp " in line
        and (match := _DIALED.search(line))
        and split_address(match[1])[1] != split_address(address)[1]
    ):
        address = match[1]  # other addresses are of those who asked
    if not address and (match := _UNPORTED.search(line)):
        address = match[1].rstrip(".")
    node = next((int(match[1]) for match in _NODE.finditer(line) if not _is_port(match, line_addresses)), None)
    is_coordinator = "Coordinator: Connect to " in line
    if node is not None and _LAST_BROKER < node <= _COORDINATOR:
        node, is_coordinator = _COORDINATOR - node, True
    if is_coordinator:
        address = match[1] if "Connect to ipv" in line and (match := _CONNECT_TO.search(line)) else address
    topic = next((name for match in _TOPIC.finditer(line) if (name := _topic(match)) and name not in _NO_TOPIC), "")
    mechanism = _MECHANISM.search(line)
    # librdkafka's thread keeps the name of the bootstrap server when it has become the one of a broker.
    chosen = _BOOTSTRAP.search(_THREAD.sub("", line) if "[thrd:" in line and line_addresses else line)
    bootstrap = True if chosen else False if node is not None and node >= 0 else None
    if bootstrap is None and is_coordinator:
        bootstrap = False  # a client knows a coordinator by its advertised address only
    scheme = _SCHEME.search(line)
    protocol = _PROTOCOL.search(line)
    return LineFacts(
        address=address,
        resolved=_resolved(named, address),
        node=node if node is None or node >= 0 else None,
        topic=topic,
        mechanism=mechanism[1] if mechanism else "",
        client=client_of(line),
        is_coordinator=is_coordinator,
        bootstrap=bootstrap,
        scheme=scheme[1] if scheme else "",
        setting=_setting(line) if "onfig" in line or "value" in line else "",
        protocol=protocol[1] if protocol else "",
        in_kubernetes=asked_kubernetes,
    )


def _is_port(match: re.Match[str], line_addresses: list[str]) -> bool:
    """Check whether the number after the word `broker` is the port of a host with that name."""
    return match[0].endswith(f"broker:{match[1]}") and any(address.endswith(match[0]) for address in line_addresses)


def client_of(line: str) -> str:
    """Return the name that a client gives itself in its log; empty if the line has none."""
    client = _CLIENT.search(line)
    return client[0] if client else ""


def _resolved(line: str, address: str) -> str:
    """Return the IP address, with the port, that stands beside a host's name, as Java or librdkafka shows it."""
    if "Connect to ipv" in line and (match := _CONNECT_TO.search(line)):
        return match[1] if match[1] != address else ""
    if "> [IPv" in line and (match := _PAIR_BESIDE_HOST.search(line)):
        resolved = f"{match[1]}:{match[2]}" if ":" not in match[1] else f"[{match[1]}]:{match[2]}"
        return resolved if resolved != address else ""
    if "/" not in line:
        return ""
    matches = (match for match in _ADDRESS.finditer(line) if match["resolved"])
    return next(
        (
            f"{match['resolved'][1:]}:{match['port']}"
            for match in matches
            if f"{match['host']}:{match['port']}" == address and is_ip(match["resolved"][1:])
        ),
        "",
    )


def _setting(line: str) -> str:
    """Return the name of the first setting, or the one that librdkafka does not know."""
    if match := _NO_SETTING.search(line):
        return match[1]
    return next((name[1] for name in _SETTING.finditer(line) if name[1].rpartition(".")[2] in _SETTING_ENDS), "")


def without_own_addresses(line: str) -> str:
    """Return a line without the addresses of the client's resolver and of its own end of a connection."""
    if ", client: " in line:
        line = _NGINX.sub("", line)
    return _LOCAL_END.sub("", _RESOLVER.sub("", line)) if " on " in line or "->" in line else line


def addresses(text: str) -> list[str]:
    """Return the first hosts with ports in their order, without times and without lines of source files."""
    bare = [match[1] for match in _BARE_IPV6.finditer(text)]
    bare += [f"[::1]:{match[1]}" for match in _LOOPBACK6.finditer(text)]
    bare += [
        f"{host}:{match[2]}" if ":" not in (host := match[1]) else f"[{host}]:{match[2]}"
        for match in (*_PAIR.finditer(text), *_HOST_AND_PORT.finditer(text), *_ERLANG_PAIR.finditer(text))
    ]
    bare += [f"{match[1] or match[3]}:{match[2] or match[4]}" for match in _HOST_PORT_WORD.finditer(text)]
    hosts = (
        f"{match['host']}:{match['port']}"
        for match in _ADDRESS.finditer(text)
        if 0 < int(match["port"]) < 65536 and _is_host(match["host"]) and not _is_field(match)
    )
    return bare + list(islice(hosts, _MOST_ADDRESSES))


def protocol_setting(line: str) -> str:
    """Return the client's `security.protocol` in small letters, if a line sets it."""
    match = _PROTOCOL_SETTING.search(line)
    return match[1].lower() if match else ""


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address; 0 if it has no port."""
    host, colon, port = address.rpartition(":")
    return (host, int(port)) if colon and port.isdigit() else (address, 0)


def host_of(address: str) -> str:
    """Return the host of an address, or the address if it has no port."""
    return split_address(address)[0]


def _is_host(host: str) -> bool:
    if host.startswith("["):
        return True
    if re.fullmatch(r"[\d.]+", host):
        return is_ip(host)
    return any(char.isalpha() for char in host) and not _SOURCE.search(host) and not re.search(r"\dT\d\d$", host)


def _is_field(match: re.Match[str]) -> bool:
    """Check whether a word and a number are a field of a log line, or a source file and its line."""
    if match["resolved"] and _SOURCE.search(match["resolved"].partition(":")[0]):
        return True
    if match["host"] in _LEVELS or match["host"] == "L":  # a line of a source, as some layouts of loggers show it
        return True
    return "." not in match["host"] and int(match["port"]) < _SMALLEST_PORT_OF_A_WORD and not match["resolved"]


def _topic(match: re.Match[str]) -> str:
    """Return the topic's name, without the partition's number at its end."""
    name = match[1].rstrip(".")
    if match[0].startswith("partition") and name.isdigit():
        return ""  # kcat's list names the topic in a line before
    return re.sub(r"-\d{1,6}$", "", name) if match[0].startswith("partition") else name


def leads_to_itself(facts: LineFacts) -> bool:
    """Check whether the address has a name that leads to the client's own machine, other than a name for that."""
    places = [classify(host_of(address).strip("[]")) for address in (facts.address, facts.resolved)]
    return places[1] is AddressClass.LOOPBACK and places[0] is not AddressClass.LOOPBACK


def is_ip(host: str) -> bool:
    """Check whether a host is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
