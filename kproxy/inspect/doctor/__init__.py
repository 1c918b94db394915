"""`kproxy doctor`: walks what a client does, says why it fails, and what to do.

An examination asks; `judge` and all that follows it are pure. So each verdict can be tested without a network.

    certnames  the name that all certificates have
    direct     contacts the same addresses as a client does, without hops and maps
    found        what an examination has found out
    contact      contacts one address: resolve, connect, TLS, login, who is there
    spoken       what a port speaks to which no broker answered
    whereabouts  where this machine reaches each broker
    examine      the examination of one cluster
    places       what an advertised address is: a container's name, localhost, a private address
    listeners    a broker's listener settings: reading them, and writing them
    findings     what is wrong, or worth knowing
    causes       why one contact failed
    hops       the hop of --via that fails, and how to try it by hand
    unaided    whether a client reaches the cluster by itself, without hops and maps
    names      what to check where a bootstrap server's name is not resolved
    clients      which clients and brokers are too old for each other
    judge        all findings, the first to mend first
    beyond       what is wrong beyond addresses: controller, topics, rights, versions, certificates
    mend         the lines that mend a finding for good
    changes      what has to change at each broker that advertises a wrong address
    advertise    the lines for that
    linted       what kproxy's own lint says of them
    line         the words of a `kproxy run` line
    trial        finds such a line that works, by connecting through it
    said         what clients say for a finding
    picture      draws what was found: for a terminal, and as SVG
    report       what a person reads, and JSON
    course       one run of the command: examine, judge, try, report
"""
