"""Ground for all other packages: errors, addresses, text, processes. It imports nothing of kproxy.

address      a host and a port: parsing and printing
compiled     whether the compiled data plane runs, and how to do without it (`KPROXY_PURE`)
ephemeral    which local ports the connections of this machine use
errors       the exception classes; the class says whose fault an error is
java         finding Java on this machine
packages     the name of kproxy's own distribution, for messages that advise to install a package
printable    escaping and cutting text that kproxy did not write itself
process      telling processes apart
regularfile  reading files that may be replaced while kproxy runs: bounded, and regular files only
repeats      lines of the log that come again and again: one in a while, and how many were left out
"""
