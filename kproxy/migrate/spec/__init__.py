"""The file of a migration (move.yaml): reading it, and what follows from it.

declarations     the words that declare it
document         reads the YAML file
migration        the options of a migration, and what they mean for a topic or a group (pure)
schema           the JSON Schema of the file, for editors
schemas_section  the section `schemas` of the file
switch_section   the section `switch` of the file
"""
