"""Moving to another cluster: copies, switches, and what they lose or harm."""
