"""What is known of a running kproxy, as one value that whoever shows it reads: the start table, `/status`, `/readyz`.

    shown      that value: frozen dataclasses, made afresh each time that somebody looks
    readiness  whether clients can use a cluster, and what to do about nodes that cannot be reached
    asjson     the value as JSON and back

Pure. What it says of addresses and errors is text already, escaped and cut.
"""
