"""Commands, and their exit codes.

    __init__          `main`, the console script
    group             the command `kproxy` itself, help and version, the modules of the commands, and shared code
    run               run, exec
    control           wait, reload
    doctor            doctor
    discover          discover
    proposals         what doctor and run propose without arguments
    ls                ls
    tap               tap
    config            config check, show, schema
    lint              lint
    users             users add, remove, login, list, check, import
    explain           explain
    findings          the formats in which commands print what a check finds
    sandbox           demo, devcluster
    profiles          named set-ups: up, down, list
    migrate           migrate, of the wing migrate
    admin_access      the options of commands that ask a running kproxy
    completion        completion, and what a shell completes beside commands and options
    flags             makes flags from the declaration in `kproxy.config`, and their grouped help; HOST:PORT for -b

Exit codes: 0 fine; 1 failed while running; 2 wrong usage or configuration, or a cluster that cannot be reached;
130 ended by Ctrl-C.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from kproxy.base.exits import invoke_command
from kproxy.cli.group import kproxy


def main() -> NoReturn:
    """Run the console script."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors go to stderr, one line for each."""
    if "_KPROXY_COMPLETE" in os.environ:  # before click looks for the class of bash
        importlib.import_module("kproxy.cli.completion")
    return invoke_command(kproxy, "kproxy", arguments)
