"""What the integration tests share: a kproxy process whose every byte to a client is checked."""
