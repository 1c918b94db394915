"""The rules of `kproxy lint`: each checks one part of the set-up and returns findings (pure).

table       the id of each rule, its severity, its reason, and its fault in the table of remedies
listeners   the listeners of one broker
kraft       roles, the controllers' listener, voters, settings left over from ZooKeeper
cluster     several brokers of one cluster: ids, voters, addresses, replicas
containers  advertised addresses, compared with published ports and the other services
images      variables of container images
security    SASL and TLS of listeners
clients     bootstrap servers, protocols and mechanisms of clients
operators   Strimzi's and CFK's resources
"""
