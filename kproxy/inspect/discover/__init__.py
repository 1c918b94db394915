"""`kproxy discover`: possible Kafka clusters, and the command for each. It writes nothing, and asks no broker.

results      the candidates of one place, and why the place could not be searched (pure)
brokers      from brokers in containers to the command for them (pure)
docker       containers of Docker and Podman, through their socket
files        Compose files and client configurations in a directory
environment  variables with bootstrap servers, and searches that would contact a server (pure)
kubernetes   clusters and Services in Kubernetes, through its API server
sockets      listening sockets of this machine, port-forwards among them
tools        the configurations of other Kafka tools on this machine
search       all places together
output       text and JSON (pure)
"""
