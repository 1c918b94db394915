"""Observation of live requests: the readers, their filters, and their bounded queues (pure, but for the clock).

feed      passes observed exchanges to subscribers, as lines of JSON; each reader has a filter and a bounded queue
frames    the same for copies of frames
rates     request rates, latencies and errors
tally     rates by node, API, client and group
findings  problems that only a proxy can observe
events    the last lines of the log
live      the snapshot that the status page shows, once a second
"""
