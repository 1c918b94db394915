"""The running proxy.

access       what clients may change: refuses requests with Kafka's own errors
login        clients that log in at kproxy: the server of SASL
admin        HTTP for operators, and the status page
app          connects the parts on one event loop
cluster      one cluster of the configuration: listeners, nodes, routes, sessions
metrics      each metric name and label
observation  what clients use, while an operator asks for it
relay        one session: which frames may pass, and moving the bytes
status       the state of a kproxy at one moment
switching    switching a cluster to another Kafka cluster
watch        observers of live requests
"""
