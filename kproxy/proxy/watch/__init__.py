"""Looking on at live requests: who is told what, and how much of it may wait (pure, but for the clock).

feed      gives what observers see to those who look on; to those outside with a filter and a bounded queue
frames    the same for copies of frames
lines     an exchange as a line of JSON, and back
rates     how much passes, how fast, with which errors
tally     sums up what passes, by node, API, client and group
findings  what only a proxy can see is wrong
events    the last lines of the log
live      what the page shows, once a second
"""
