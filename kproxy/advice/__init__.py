"""Rooms that read text and explain what is wrong in it; they open no connection.

explain   the meaning of a message or a log
lint      mistakes in the configuration files of brokers and clients
remedies  the table of faults between a client and its brokers
"""
