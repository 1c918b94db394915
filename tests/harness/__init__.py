"""Shared parts of the integration tests: above all a kproxy process whose every byte to a client is checked."""
