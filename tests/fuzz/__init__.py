"""Fuzzing of the pure rooms: `python -m tests.fuzz --seconds 30`."""
