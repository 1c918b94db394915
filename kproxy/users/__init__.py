"""The users who log in at kproxy: the file that has them, and where their verifiers come from.

A users file has for each user SCRAM verifiers, as Kafka stores them in place of passwords, and for each upstream the
credentials with which kproxy logs in there for that user. It is private to its owner (mode 0600).

verifier     `ScramVerifier`: verifies a password without having it (pure)
decoys       verifiers for users that do not exist (pure)
document     the text of a users file: users, and mistakes with their lines
usersfile    the file itself: who may read it, and reading it again when it changes
editing      changes of the file, which keep its comments
kafkaoutput  verifiers in what Kafka's and ZooKeeper's tools print (pure)
"""
