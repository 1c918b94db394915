"""The main process of kproxy, from its configuration to its exit code.

    main        connects the parts on one event loop, the admin endpoint too
    clusters    the clusters that are served, and what is done for each in the background
    carriers    what the app asks of those who carry the sessions
    switching   the switches of clusters that have two upstreams, and what the admin endpoint shows of them
    switch      the switch of one cluster: its events, timers and effects, each step written down first
    keeping     the state of one cluster on the disk, and what to rely on where it cannot be written
    statedir    what is written down: `--state-dir`
    effects     what a switch does to clusters and sessions
    control     how the process ends: signals, `--exit-with`, `/quit`, drain
    reload      takes over a new configuration while kproxy runs, and notices changed files
    terminal    whether the terminal that kproxy was started on is still there
    endings     the conditions that `--exit-with` waits for
    exec        `kproxy exec`: runs a command, with its environment, signals and exit code
    logs        the log: lines for people or JSON
    stderr      the stderr of a running kproxy, which a thread writes
    present     what a person sees at start
    table       a table of nodes, or a list on a narrow terminal
    neighbours  says whose port a bootstrap server is, if it is another kproxy's
    nextstep    the command lines that help where a broker cannot be reached
    follow      what `kproxy tap` shows
    pcap        what `kproxy tap --pcap` writes: the packets of connections that had the frames
    pcapng      the blocks of a capture file, and the packets in it
    preflight   what `kproxy config check` examines beyond the file

A command imports these modules only when it needs them: `kproxy --help` needs none.
"""
