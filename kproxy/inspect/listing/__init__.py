"""`kproxy ls`: what is in a cluster, as its brokers tell it, directly and through kproxy.

snapshot   what was seen of a cluster
gather     asks a cluster: its bootstrap servers, and, for groups and listeners, each broker
running    the kproxy that runs on this machine, and what it calls the brokers
pair       the same cluster, directly and through kproxy
compare    what differs between two snapshots (pure)
columns    tables that fit the width of a terminal (pure)
text       a snapshot, or two side by side, for people (pure)
asjson     the same for programs (pure)
"""
