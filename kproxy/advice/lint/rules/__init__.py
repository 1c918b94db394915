"""The rules of `kproxy lint`: each checks one part of the set-up and returns findings (pure).

table          the registry of rules: id, severity, reason, example, and the fault in the table of remedies
brokertable    the rules for files, brokers and clusters
clienttable    the rules for clients, logins, operators and charts
listeners      the listeners of one broker
hosts          hosts that are no names, or the container itself
kraft          roles, the controllers' listener, voters, settings left over from ZooKeeper
cluster        several brokers of one cluster: ids, voters, addresses, replicas
containers     advertised addresses, compared with published ports and the other containers
images         variables of container images
programs       variables of programs other than brokers
interpolation  dollar signs in variables
security       SASL and TLS of listeners
jaas           login modules and their options
clients        bootstrap servers, protocols and mechanisms of clients
clientnames    settings of the other client library, and types of stores
clouds         what the address of a cloud demands
frameworks     settings that Spring or Quarkus does not know or use
connectors     settings of connectors that were renamed
operators      Strimzi's and CFK's resources, and charts
"""
