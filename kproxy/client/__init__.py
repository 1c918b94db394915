"""kproxy as a Kafka client: its own requests and its own logins.

ask   kproxy's own questions to brokers, and the reading of their responses
sasl  logging in on behalf of clients
"""
