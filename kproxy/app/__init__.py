"""The main process of kproxy, from its configuration to its exit code.

    main        wiring: the clusters on one event loop, the admin endpoint
    control     how it ends: signals, `--exit-with`, `/quit`, drain
    endings     what `--exit-with` waits for
    exec        `kproxy exec`: a command as the process's errand, its environment, signals and exit code
    logs        the log: lines for people or JSON
    present     what a person sees at start
    table       a table of nodes, or a list on a narrow terminal
    preflight   what `kproxy config check` looks at beyond the file

Each is imported when it is needed: `kproxy --help` needs none of them.
"""
