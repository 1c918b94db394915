"""The file of a migration (move.yaml): reading it, and what follows from it.

document        reads the YAML file
migration       the options of a migration, and what they mean for a topic or a group (pure)
switch_section  the section `switch` of the file
"""
