"""`kproxy migrate`: moving topics, with proof, from one cluster to another. All of PySpark that it needs is here.

copy           the copy: rounds of Spark jobs
rounds         which slices a round has, and in which tasks (pure)
tasks          what runs in Spark's Python workers
control        who copies, and the orders of other commands
progress       how far the copy is
display        what a person sees of it
exposed        its numbers for Prometheus
status         where a migration stands, from the target alone
document        reads the YAML file
migration       what it says, and what follows for a topic and a group (pure)
roads           both clusters through kproxy, with Spark and without
administration  one connection for administration to a cluster
"""
