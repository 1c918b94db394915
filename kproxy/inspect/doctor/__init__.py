"""`kproxy doctor`: does what a client does, reports why that fails, and what to do.

An examination does the I/O; `diagnosis` and the modules after it are pure. So tests need no network for them.

    evidence           the results of an examination
    contact            contacts one address: resolve, connect, TLS, login, identity of the broker
    protocol_probe     the protocol of a port at which no broker answered
    broker_addresses   an address of each broker that this machine can connect to
    cluster_questions  the questions to brokers: topics, settings, and those of the user's client
    examiner           the examination of one cluster
    listeners          a broker's listener settings: reading them, and writing them
    findings           the problems and notes that doctor reports
    causes             why one contact failed
    by_hand            what a person tries: the hop of --via that fails, a name that is not resolved
    direct_access      whether a client reaches the cluster by itself: its contacts, without hops and maps
    client_versions    which clients and brokers are too old for each other
    diagnosis          all findings, the first to fix first
    cluster_checks     problems other than addresses: controller, leaders, versions, certificates
    intent_checks      problems with the topic and the group of the user's client, and what was not tried
    fixes              the lines that fix a finding for good
    client_lines       the settings of a client that fix its TLS or login
    listener_changes   the change at each broker that advertises a wrong address
    advertised_lines   the lines for these changes
    lint_check         kproxy's own lint on these lines
    command_trials     tries such command lines until one works
    picture            a drawing of the evidence: for a terminal, and as SVG
    progress           the steps, as they are printed while the examination runs
    copyable           lines to copy, for a terminal of 80 columns
    report             the report for people
    asjson             the report as JSON
    run                one run of the command: examine, diagnose, try, report
"""
