"""The plan of a migration: changes to the target, findings, and an estimate of the duration.

changes   the changes to make on the target (pure)
display   a plan as text for a terminal
estimate  how long the migration takes (pure)
plan      changes, findings and estimate together (pure)
rules     the rules that find what cannot be kept, what would be lost, and missing rights (pure)
"""
