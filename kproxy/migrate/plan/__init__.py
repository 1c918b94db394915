"""The plan of a migration: changes to the target, findings, and an estimate of the duration.

changes   the changes to make on the target (pure)
display   a plan as text for a terminal
estimate  how long the migration takes (pure)
finding   a finding, and the inputs of all rules (pure)
plan      changes, findings and estimate together (pure)
rights    missing rights (pure)
rules     the rules that find what cannot be kept or would be lost (pure)
"""
