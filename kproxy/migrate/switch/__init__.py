"""`kproxy migrate switch`: moving the clients of all kproxies to the other cluster at once, and back.

kproxies      the kproxies: where they are, and asking them
kubernetes    pods by their labels
answers       what a kproxy says of itself (pure)
fitness       whether kproxies can be switched (pure)
affected      what clients will see (pure)
transactions  which are open in a cluster, and ending them
members       the client ids in the groups of a cluster
only          which clients are switched by themselves (pure)
tail          what was written last: copied, compared, positions translated
preflight     what is looked at before
drive         the machine of `kproxy.proxy.switching` with real kproxies, journal and work
leading       what leading clients has in any direction: kproxies, findings, the drive
beginning     a switch from the preflight to the end of the hold
running       what the commands switch and rollback do, and going on with one that was broken off
reverse       the way back: states and offset maps of a copy in the other direction (pure)
wayback       what keeps the way back open, and what leads clients back on it
returning     what leads clients back that were switched by themselves, and only read
ledback       positions of a checkpoint, after a rollback
afterwards    what holds when no switch is under way
finishing     the end of a migration
report        what came of it (pure)
"""
