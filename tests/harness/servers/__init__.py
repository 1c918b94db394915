"""Servers that a client or kproxy may meet besides a real Kafka cluster."""
