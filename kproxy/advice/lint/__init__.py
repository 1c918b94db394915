"""`kproxy lint`: finds mistakes in the listeners of Kafka configurations before anybody deploys them.

Files become brokers, clients and the networks between them, each value with its place in the file. Rules look at these
and return findings. Only `source` and `fixing` touch files; nothing here touches the network.

source       the text of a file, places in it, changes to it
value        a value of a file, and how to write another one in its place
properties   java.util.Properties, with places
tree         YAML, with places and bounds
interpolate  variables of Docker Compose, `.env`
kinds        what a file is
endpoint     an entry of listeners, and what a host is
model        brokers, clients, services
images       what container images make of variables
compose      Docker Compose files
clientfiles  files of clients, Connect and Spark
operators    Strimzi's and CFK's resources
rules        the rules
findings     a finding, and text without secrets
linting      from files to a report
reach        who can connect where
fixing       corrected files
present      text, JSON, annotations for GitHub
"""
