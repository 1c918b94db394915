"""Asks a live cluster, or looks for one, and shows what is there.

discover  where brokers could be
doctor    why a client fails
listing   what is in a cluster
"""
