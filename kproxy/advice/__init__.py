"""Reads text and says what is wrong with it; opens no connection.

explain   what a message or a log means
lint      mistakes in the configuration files of brokers and clients
remedies  the table of what can be wrong between a client and its brokers
"""
