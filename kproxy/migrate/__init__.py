"""`kproxy migrate`: moving topics, with proof, from one cluster to another.

commands  the commands, as a person gives them
spec      the file of a migration (move.yaml)
clusters  both clusters: connections to them, and what they have
journal   what drivers note in the state topic
plan      what has to be done, what cannot be kept, and how long it takes
prepare   does the changes of a plan on the target, and takes them back
copy      the copy, as Spark jobs
copier    copies records of one partition, exactly once, without Spark
offsets   positions of groups, translated and written
verify    compares what was copied with the source, record by record
switch    moves the clients of all kproxies, and leads them back
figures   numbers as people read them (pure)
"""
