"""Kafka clusters beyond `kproxy.dev.devcluster`, and their listeners."""
