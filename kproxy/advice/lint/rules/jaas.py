"""Rules for JAAS: entries of clients and brokers, and files. No finding repeats a part of an entry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from kproxy.advice.lint.client import ClientConfig
from kproxy.advice.lint.findings import LintDiagnostic
from kproxy.advice.lint.model import BrokerConfig, Setup
from kproxy.advice.lint.rules.table import finding
from kproxy.advice.lint.source import Edit, SourceFile, SourceLocation
from kproxy.advice.lint.value import ConfigValue
from kproxy.config.jaas import MODULES, JaasEntry, JaasError, JaasMistake, parse_entry, parse_file

_RULES = {
    JaasMistake.EMPTY: "jaas-section",
    JaasMistake.BLOCK: "jaas-block",
    JaasMistake.QUOTED: "jaas-quotes",
    JaasMistake.SEVERAL: "jaas-block",
    JaasMistake.FLAG: "jaas-flag",
    JaasMistake.OPTION: "jaas-option",
    JaasMistake.OPEN_QUOTE: "jaas-quotes",
    JaasMistake.BARE: "jaas-quotes",
    JaasMistake.SEMICOLON: "jaas-semicolon",
    JaasMistake.EARLY_SEMICOLON: "jaas-semicolon",
    JaasMistake.SECTION: "jaas-section",
    JaasMistake.SECTION_END: "jaas-semicolon",
}
_KEY = "sasl.jaas.config"
_KAFKAS = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}
_IN_PACKAGES = {module.partition(".")[2]: module for module in _KAFKAS.values()}
# Java's own package has the module for Kerberos, and none of Kafka's.
_OTHER_PACKAGE = re.compile(
    r"(?:kafkashaded\.)?org\.apache\.kafka\.common\.security\.\w+|com\.sun\.security\.auth\.module"
)
_HANDLER = "sasl.client.callback.handler.class"
_IAM_MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
_IAM_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_BROKER_KEY = re.compile(r"listener\.name\.[^.]+\.(?P<mechanism>[^.]+)\.sasl\.jaas\.config", re.IGNORECASE)
# What a variable, a template or a person completes: `${file:…}`, `$VAR`, Spring's `#{…}`, `{{ … }}`, `<your entry>`.
_PLACEHOLDER = re.compile(r"[$#]\{|\$[A-Za-z_]|\{\{|<|@\w+@")
_CONTINUED = re.compile(r"\\\r?\n")
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n\r])*"')


def check(setup: Setup) -> Iterator[LintDiagnostic]:
    for client in setup.clients:
        value = client.settings.get(_KEY)
        if value is not None:
            yield from _check_client(client, value)
    for broker in setup.brokers:
        for key, value in broker.settings.items():
            if (match := _BROKER_KEY.fullmatch(key)) is not None:
                yield from _check_broker(broker, value, match["mechanism"].upper())
    for source in setup.jaas_files:
        yield from _check_file(source)


def _check_client(client: ClientConfig, value: ConfigValue) -> Iterator[LintDiagnostic]:
    try:
        entry = _entry(value)
    except JaasError as error:
        yield _mistake(client, value, error)
        return
    mechanism = client.settings.get("sasl.mechanism")
    if entry is None or (mechanism is None and not client.complete) or (mechanism and not mechanism.is_known):
        return
    yield from _check_module(client, entry, value, mechanism, mechanism.text.upper() if mechanism else "GSSAPI")
    if entry.module.endswith(_IAM_MODULE) and client.complete and _HANDLER not in client.settings:
        text = f"the login module of AWS needs {_HANDLER}, which is missing"
        yield finding("jaas-handler", value, client, text, None, f"{_HANDLER}={_IAM_HANDLER}")


def _check_broker(broker: BrokerConfig, value: ConfigValue, mechanism: str) -> Iterator[LintDiagnostic]:
    try:
        entry = _entry(value)
    except JaasError as error:
        yield _mistake(broker, value, error)
        return
    if entry is not None:
        yield from _check_module(broker, entry, value, None, mechanism)
        if _lacks_own_user(entry):
            yield finding("jaas-own-user", value, broker, _no_user(entry), None, 'user_NAME="..." of the username')


def _entry(value: ConfigValue) -> JaasEntry | None:
    """Return the entry; None if a part of it that is not in quotes is not known here. Raises JaasError."""
    # In the variables of an image, a line may end with a backslash: it becomes a line of properties.
    text = _CONTINUED.sub("  ", value.text)
    if not text.strip() or _PLACEHOLDER.search(_QUOTED.sub("", text)):
        return None
    return parse_entry(text)


def _mistake(owner: ClientConfig | BrokerConfig, value: ConfigValue, error: JaasError) -> LintDiagnostic:
    edits = value.append(";") if error.mistake is JaasMistake.SEMICOLON else None
    if error.mistake is JaasMistake.FLAG and error.index:
        edits = value.insert(error.index, " required")
    text = f"{value.key or _KEY} {error.mistake.value}"
    line = f'{value.key or _KEY}=MODULE required KEY="VALUE" ...;'
    return finding(_RULES[error.mistake], value, owner, text, edits, line)


def _check_module(
    owner: ClientConfig | BrokerConfig,
    entry: JaasEntry,
    value: ConfigValue,
    setting: ConfigValue | None,
    mechanism: str,
) -> Iterator[LintDiagnostic]:
    """Check that the login module exists, and is the one of the mechanism."""
    wanted = right_class(entry.module)
    if wanted:
        text = no_class(entry.module)
        at = value.raw.find(entry.module)
        start, end = value.start + at, value.start + at + len(entry.module)
        edits = [Edit(value.source.name, start, end, wanted)] if at >= 0 else None
        yield finding("jaas-module", value, owner, text, edits, f"{wanted} required ...;")
        return
    if not entry.mechanisms or mechanism in entry.mechanisms:
        return
    module = entry.module.rpartition(".")[2]
    right = next((name for name, mechanisms in MODULES.items() if mechanism in mechanisms), None)
    if right is None:
        return
    if isinstance(owner, ClientConfig) and setting is None:
        given, line = "sasl.mechanism is missing, which means GSSAPI", f"sasl.mechanism={entry.mechanisms[0]}"
    else:
        given, line = f"the mechanism is {mechanism}, whose module is {right}", f"...{right} required ...;"
    text = f"{module} is for {' and '.join(entry.mechanisms)}, but {given}"
    yield finding("jaas-module", value, owner, text, None, line)


def right_class(module: str) -> str:
    """Return the right class, if this is one of Kafka's login modules in a wrong package; a shaded one stays so."""
    package, name = module.rpartition(".")[::2]
    in_package = _IN_PACKAGES.get(name, "")
    right = f"org.apache.kafka.common.security.{in_package}"
    # A shaded class has more before its name than a misspelt one.
    is_misspelt = module != right and bool(get_close_matches(module, [right], 1, 0.96))
    is_wrong = _OTHER_PACKAGE.fullmatch(package) and not module.endswith(f".{in_package}")
    if not in_package or not (is_wrong or is_misspelt):
        return ""
    return f"kafkashaded.{right}" if module.startswith("kafkashaded.") else right


def no_class(module: str) -> str:
    return f"Kafka has no class {module}, but {right_class(module)}"


def _lacks_own_user(entry: JaasEntry) -> bool:
    """Check whether a broker's module for PLAIN does not accept the user as which brokers log in, or its password."""
    user, options = entry.options.get("username", ""), entry.options
    if entry.mechanisms != ("PLAIN",) or not user or not any(key.startswith("user_") for key in options):
        return False
    texts = (user, options.get("password", ""), options.get(f"user_{user}", ""))
    return not any(map(_PLACEHOLDER.search, texts)) and options.get(f"user_{user}") != options.get("password")


def _no_user(entry: JaasEntry) -> str:
    has_user = f"user_{entry.options['username']}" in entry.options
    what = "another password for its own username" if has_user else "no user_ entry for its own username"
    return f"the login module has {what}"


def change_module(value: ConfigValue, mechanism: str) -> list[Edit] | None:
    """Return edits that make the login module of an entry the one of another mechanism of Kafka's own."""
    module = _KAFKAS.get(mechanism)
    match = re.search(r"(?:\b\w{1,40}\.)?\b(?:Plain|Scram|OAuthBearer)LoginModule", value.raw)
    if module is None or match is None:
        return None
    new = module if "." in match[0] else module.partition(".")[2]
    return [Edit(value.source.name, value.start + match.start(), value.start + match.end(), new)]


def _check_file(source: SourceFile) -> Iterator[LintDiagnostic]:
    try:
        entries = parse_file(source.text)
    except JaasError as error:
        index = min(error.index, max(len(source.text) - 1, 0))
        edits = None
        if error.mistake in (JaasMistake.SEMICOLON, JaasMistake.SECTION_END):
            edits = [Edit(source.name, error.index, error.index, ";")]
            index = max(index - 1, 0)
        elif error.mistake is JaasMistake.EARLY_SEMICOLON:
            edits = [Edit(source.name, index, index + 1, "")]
        elif error.mistake is JaasMistake.FLAG:
            edits = [Edit(source.name, error.index, error.index, " required")]
        text = f"the file {error.mistake.value}"
        line = 'NAME { MODULE required KEY="VALUE" ...; };'
        yield finding(_RULES[error.mistake], SourceLocation(source, index), source, text, edits, line)
        return
    for entry in entries:
        if wanted := right_class(entry.module):
            start, end = entry.index, entry.index + len(entry.module)
            is_written = source.text[start:end] == entry.module
            edits = [Edit(source.name, start, end, wanted)] if is_written else None
            text = no_class(entry.module)
            yield finding("jaas-module", SourceLocation(source, start), source, text, edits, f"{wanted} required ...;")
        if entry.section.rpartition(".")[2] == "KafkaServer" and _lacks_own_user(entry):
            line = 'user_NAME="..." of the username'
            yield finding("jaas-own-user", SourceLocation(source, entry.index), source, _no_user(entry), None, line)
