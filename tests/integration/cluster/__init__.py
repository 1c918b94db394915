"""Tests that share one cluster and harm nothing of it. One process runs them, and the cluster ends with the last."""
