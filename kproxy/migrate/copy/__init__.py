"""The copy, as Spark jobs, and its last small rounds in the driver.

copyrun       one run of the copy: rounds of Spark jobs
display       the progress of a copy on a terminal, and its metrics
driverround   small rounds, in threads of the driver
progress      the progress of each partition and topic
retention     when the source deletes records that are not copied yet
rounds        the slices of a round, their tasks, and the code that runs in Spark's Python workers
sparksession  the Spark session of one command
statereader   the state topic, as both threads of a run see it
scope         the topics and settings of a copy, from the migration file and both clusters
"""
