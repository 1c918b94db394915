"""`kproxy migrate`: copying topics from one cluster to another, with proof, and moving the clients.

commands  the commands of `kproxy migrate`
spec      the file of a migration (move.yaml)
clusters  connections to both clusters, and an inventory of each
journal   records of the drivers in the state topic
usage     what clients use, what must move together, and who goes round the kproxies
schemas   copies a schema registry to another one, with the same ids
plan      changes to make, findings, and an estimate of the duration
prepare   applies the changes of a plan to the target, and undoes them
copy      the copy, as Spark jobs
copier    copies records of one partition, exactly once, without Spark
offsets   translates committed offsets of groups and writes them
verify    compares the copy with the source, record by record
switch    moves the clients of all kproxies to the target, and back
report    what a migration has done, for people and programs
format    actions on a cluster as text for people (pure)
htmlpage  parts of the HTML files that are reports (pure)

Everything that asks a cluster raises UpstreamError if no broker answers, and WireError for an answer that it cannot
use (BrokerError if it is an error code of Kafka's). Docstrings name only the other exceptions.
"""
