"""Versions of Kafka against versions of clients, through kproxy: `make test-matrix`.

brokers.py    the clusters, ZooKeeper's age included
clients.py    the clients, how each is made ready, and the scenario that they all go through
java/         the scenario for every kafka-clients from 0.11 on
programs/     the scenario for the other clients
report.py     docs/compatibility.md, written by a complete run
"""
