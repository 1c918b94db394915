"""The plan of a migration: changes to the target, findings, and an estimate of the duration.

changes          the changes to make on the target (pure)
display          a plan as text for a terminal
estimate         how long the migration takes (pure)
plan             changes, findings and estimate together (pure)
principals       ACLs and quotas of the source, as the target gets them (pure)
principal_rules  the rules about users, ACLs and quotas (pure)
rules            the other rules: what cannot be kept, what would be lost, and missing rights (pure)
"""
