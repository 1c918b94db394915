"""Verification of a migration: compares the copied records with the source, record by record.

compaction        the records that compaction may have removed from one side
comparison        one partition during its verification
differences       the first differing record of a partition, and how it differs (pure)
driverhashing     hashes of few records, which the driver reads itself
hashing           reads both sides with Spark's Kafka source: hashes, and single records
pieces            ranges of the source and of the target, their jobs, and how blocks compare (pure)
report            the report for a terminal and as JSON (pure)
reportpage        the report as one HTML file (pure)
results           the results of a verification, and their form in the state topic (pure)
runner            runs one verification of a migration, and saves its result on the target
trailing_records  records on the target after the last copied record
verification      the ranges that are compared, job by job, and the results that follow
"""
