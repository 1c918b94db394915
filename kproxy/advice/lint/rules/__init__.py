"""The rules of `kproxy lint`: each looks at one part of the set-up and says what is wrong there (pure).

table       the id of each rule, how bad it is, why, and its cause in the table of remedies
listeners   the listeners of one broker
kraft       roles, the controllers' listener, voters, what is left over from ZooKeeper
cluster     several brokers of one cluster: ids, voters, addresses, replicas
containers  what is advertised, against published ports and the other services
imagery     variables of container images
security    SASL and TLS of listeners
clients     bootstrap servers, protocols and mechanisms of clients
operators   Strimzi's and CFK's resources
"""
