"""Versions of Kafka against versions of clients, through kproxy: `make test-matrix`.

brokers.py     the clusters, ZooKeeper's age included
client.py      what every client is, the scenario that they all go through, and what a run of it showed
clients.py     the list of them; Java and Python of every age
languages.py   Go, Rust, Node.js: built or fetched with their own tools; skipped where those are missing
frameworks.py  Kafka Streams, Connect, share groups
kubernetes.py  a cluster of Kubernetes' own programs, for the manifests of deploy/; built with Go
java/          the scenario for every kafka-clients from 0.11 on, and the frameworks'
programs/      the scenario for the other clients; the modules of Kubernetes
pythons.py     the Pythons of this machine
report.py      docs/compatibility.md, in which a run replaces the cells that it ran
"""
