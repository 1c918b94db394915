"""Kafka's own classes in a JVM: what they make of what kproxy wrote."""
