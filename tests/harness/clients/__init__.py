"""Clients: real ones in Java, Python and Spark, a browser, and the smallest ones at the level of frames."""
