"""Kafka on this machine, for trying and testing.

demo        a story for a terminal: a cluster that cannot be reached, and kproxy in front of it
devcluster  a real Kafka cluster on this machine
"""
