"""`kproxy ls`: the contents of a cluster, as its brokers return them, directly and through kproxy.

snapshot          the contents of a cluster at one moment, and the kproxy that serves it
gatherer          asks a cluster: its bootstrap servers, and, for groups and listeners, each broker
paired_snapshots  the same cluster, directly and through kproxy
comparison        the differences between two snapshots (pure)
columns           tables that fit the width of a terminal (pure)
text              a snapshot, or two side by side, for people (pure)
asjson            the same for programs (pure)
"""
