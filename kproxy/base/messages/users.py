"""Messages about the users file."""

from __future__ import annotations

from kproxy.base.messages.message import Message

USERS_KEPT = Message(
    "users file: {problem}; the users of its former version still count",
    "kproxy read the users file again because it had changed, and it is wrong. Correct it: kproxy reads it again by "
    "itself. `kproxy users check FILE` reports all mistakes.",
)
NO_USER_LOGIN = Message(
    "user {user} has no login for {upstream}: kproxy users login FILE {user} {upstream}, or set default-login",
    "With `login-as: user`, kproxy logs in to the brokers as each user. This user has logged in at kproxy, but neither the "
    "users file nor `credentials-command` has a login for this upstream ([logins.md](logins.md#logins-for-each-upstream)).",
    reason="sasl",
)
UNSAFE_USER = Message(
    "user {user} has a name that credentials-command does not get: put the login into the users file",
    "The name could be a path, an option or a part of a URL, and clients choose their names. A command gets names of "
    "letters, digits and `_ . @ = , + -` and spaces that do not begin with `.` or `-`.",
    reason="sasl",
)
CREDENTIALS_UNUSABLE = Message(
    "the login of user {user} for {upstream} cannot be used: {problem}",
    'Look at the login in the users file, or at what `credentials-command` prints: `{"username": …, "password": …}` or '
    '`{"token": …}`, also within `data` (Vault), `SecretString` (AWS) or `value` (Azure). No value is shown, because each '
    "may be a secret.",
    reason="sasl",
)
