"""The state of a running kproxy, as one value. The start table, `/status` and `/readyz` read it.

    model      that value: frozen dataclasses, built for each request
    readiness  whether clients can use a cluster, and what to do about nodes that kproxy cannot reach
    asjson     converts the value to JSON and back

Pure. Addresses and errors in it are text that is already escaped and cut.
"""
