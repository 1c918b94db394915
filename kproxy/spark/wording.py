"""Replaces flags in kproxy's messages by keys of a configuration file, which users of Spark have."""

from __future__ import annotations

import re
from functools import cache

from kproxy.config.declarations import Setting
from kproxy.config.options import all_settings

# The word after a flag is its value if it is a placeholder (FILE), a quoted text, a star, or has a colon, an equals
# sign or a digit.
_VALUE = r"'[^']*'|\*|[A-Z][A-Z_]+\b[^\s,;)]*|(?=[^\s,;)]*[:=0-9])[^\s,;)]+"
_FLAG = re.compile(rf"--([a-z][a-z-]*[a-z])(?![a-z-])((?: (?:{_VALUE}))?)((?: --\1 (?:{_VALUE}))*)")


@cache
def _by_flag() -> dict[str, tuple[Setting, str]]:
    """Return the option of each flag name, and the value that a flag without a value stands for."""
    settings = {
        setting.key: (setting, "true" if setting.is_switch else "") for setting in all_settings() if setting.flag
    }
    off = {setting.off[2:]: (setting, "false") for setting, _ in settings.values() if setting.off}
    return off | settings


def replace_flags(text: str) -> str:
    """Return a message with keys in place of flags: `--map 'node:1=HOST:PORT'` becomes "`map: [node:1=HOST:PORT]`".

    Flags that are no option of `kproxy run` stay.
    """
    return _FLAG.sub(_key, text)


def _key(match: re.Match[str]) -> str:
    if match[1] not in _by_flag():
        return match[0]
    setting, switched = _by_flag()[match[1]]
    if switched:
        return f"`{setting.key}: {switched}`{match[2]}{match[3]}"
    values = [value.strip("'") for value in re.findall(_VALUE, match[2] + match[3].replace(f"--{match[1]}", ""))]
    end = ""
    if values:  # the end of a clause is not of the value
        last = values[-1]
        values[-1] = last.rstrip(":.")
        end = last[len(values[-1]) :]
    if setting.repeatable and values:
        return f"`{setting.key}: [{', '.join(values)}]`{end}"
    return f"`{setting.key}: {values[0]}`{end}" if values else f"`{setting.key}`"
