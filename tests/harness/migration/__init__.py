"""Moving to another cluster: copies, switches, what they lose or harm, and who says so."""
