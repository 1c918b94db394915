"""Reports of what a migration has done, for people and programs, read from the state topics alone.

status         how far the migration is
reversecopies  how far the copies from the target back to the source are
record         all that the state topics have recorded of a migration
doubts         what the record does not prove (pure)
asjson         the record as JSON (pure)
movepage       the record as one HTML file (pure)
"""
