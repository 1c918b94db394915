"""The words of a declaration: groups, `Reload`, `option`, and the base of the classes whose fields are options."""

from __future__ import annotations

import copy
from dataclasses import MISSING, InitVar, dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from kproxy.config.kinds import ValueKind

ENV_PREFIX = "KPROXY_"
# Groups of `--help` and of the reference table, in their order.
CLUSTER = "The cluster"
LOCAL = "Where clients connect"
REACH = "Reaching the brokers"
TLS = "Encryption"
LOGIN = "Logging in to the brokers"
CLIENT_LOGIN = "Logging in at kproxy"
ACCESS = "What clients may change"
LIMITS = "Limits"
PROCESS = "The process"
GROUPS = (CLUSTER, LOCAL, REACH, TLS, LOGIN, CLIENT_LOGIN, ACCESS, LIMITS, PROCESS)


class Reload(Enum):
    """The effect of a reload on a changed option. The values are the words of the reference table and of the schema."""

    RESTART = "restart"  # it refuses the configuration: the option needs a new kproxy
    ADDED = "live if it was not set, else restart"
    LIVE = "live"  # it takes the value, and no session notices
    DRAINS_ROUTES = "live; drains what it moves"  # of a node, the sessions along what is no longer a route to it
    DRAINS_ALL = "live; drains the cluster"  # the sessions were opened in another way than the next ones


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """One option as every source sees it."""

    name: str
    """The name of the field."""
    group: str
    kind: ValueKind[Any]
    help: str
    unset: str = "none"
    """The meaning of an empty default."""
    default: Any = None
    """MISSING for a required option."""
    repeatable: bool = False
    """It has several values."""
    short: str = ""
    off_flag: str = ""
    """A flag without a value that means no, if it is not --no- and the key of a switch."""
    secret: bool = False
    """The value is never shown, and no flag takes it: it comes from a variable or a file."""
    reload: Reload = Reload.RESTART
    """The effect of a change while kproxy runs."""

    @property
    def in_cluster(self) -> bool:
        return self.group != PROCESS

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def key(self) -> str:
        """The key in YAML."""
        return kebab(self.name)

    @property
    def env(self) -> str:
        """The environment variable."""
        return ENV_PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The long flag, as errors name it; "" for a secret, which all users of the machine could read there."""
        return "" if self.secret else f"--{self.key}"

    @property
    def is_switch(self) -> bool:
        """True if its flags take no value: one for yes, one for no."""
        return self.kind.native == (bool,)

    @property
    def off(self) -> str:
        """The flag without a value that means no; "" if there is none."""
        return self.off_flag or (f"--no-{self.key}" if self.is_switch else "")

    @property
    def default_text(self) -> str:
        """The default for people; "" for a required option."""
        if self.required:
            return ""
        if self.default in (None, ()):
            return self.unset
        shown = self.kind.show(self.default)
        return str(shown).lower() if isinstance(shown, bool) else str(shown)


def option(group: str, kind: Any, help: str, unset: str = "none", *, factory: Any = None, **more: Any) -> Any:
    """Declare the field of an option. `more` are further fields of `Setting`.

    A repeatable option is empty by default, and a switch is off; `factory` makes a default that can be changed.
    """
    default = more.pop("default", () if more.get("repeatable") else False if kind.native == (bool,) else None)
    initial = {"default_factory": factory} if factory else {"default": default}
    declared = {"group": group, "kind": kind, "help": help, "unset": unset, **more}
    return field(**initial, repr=not more.get("secret"), metadata={"declared": declared})


def kebab(name: str) -> str:
    """Return a name as it appears in files and flags."""
    return name.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The base of the classes with options. A Python value is printed and read back, so it gets the checks of text.

    `checked` False: the caller has read the values, and checks the rules between them.
    """

    checked: InitVar[bool] = True

    def __post_init__(self, checked: bool) -> None:
        """Read the values that are no defaults. Raises ValueError with all mistakes."""
        mistakes = []
        for setting in settings_of(type(self)).values() if checked else ():
            value = getattr(self, setting.name)
            if value is setting.default:
                continue
            try:
                read = tuple(map(setting.kind.read, value)) if setting.repeatable else setting.kind.read(value)
                object.__setattr__(self, setting.name, read)
            except ValueError as error:
                mistakes.append(f"{setting.key}: {error}")
        if mistakes:
            raise ValueError("; ".join(mistakes))

    def replace(self, **changes: object) -> Self:
        """Return a copy with other values, which are not checked."""
        changed = copy.copy(self)
        changed.__dict__.update(changes)
        return changed


_SETTINGS: dict[type[Any], dict[str, Setting]] = {}


def settings_of(owner: type[Any]) -> dict[str, Setting]:
    """Return the options of a class by key: by group, in the order of their declaration."""
    if owner not in _SETTINGS:
        declared = [field_ for field_ in fields(owner) if "declared" in field_.metadata]
        defaults = [field_.default if field_.default_factory is MISSING else None for field_ in declared]
        pairs = zip(declared, defaults, strict=True)
        settings = [
            Setting(name=field_.name, default=default, **field_.metadata["declared"]) for field_, default in pairs
        ]
        settings.sort(key=lambda setting: GROUPS.index(setting.group) if setting.group else 0)
        _SETTINGS[owner] = {setting.key: setting for setting in settings}
    return _SETTINGS[owner]
