"""kproxy as a Kafka client: its own requests and its own logins.

ask   what kproxy asks brokers, and how it reads the answers
sasl  logging in on behalf of clients
"""
