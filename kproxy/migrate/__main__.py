"""The entry point of `python -m kproxy.migrate`, also under spark-submit: the commands of `kproxy migrate`."""

import sys

from kproxy.base.exits import invoke_command
from kproxy.migrate.commands.group import migrate

if __name__ == "__main__":
    sys.exit(invoke_command(migrate, "python -m kproxy.migrate", sys.argv[1:]))
