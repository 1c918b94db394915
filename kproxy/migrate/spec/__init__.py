"""The file of a migration (move.yaml): reading it, and what follows from it.

document   reads the YAML file
migration  what it says, and what follows for a topic and a group (pure)
section    the section `switch` of that file
"""
