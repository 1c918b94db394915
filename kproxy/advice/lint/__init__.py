"""`kproxy lint`: mistakes in the listeners of Kafka configurations, found before they are deployed.

Files become brokers, clients and the networks between them; each value has its location in the file. Rules check these
and return findings. Only `source` and `fixes` touch files; nothing here touches the network.

source        the text of a file, locations in it, edits to it
value         a value of a file, and the edits that replace it
properties    java.util.Properties, with locations
tree          YAML, with locations and bounds
variables     variables of Docker Compose, `.env`
filekinds     the kinds of files, and how to recognise them
endpoint      an entry of listeners, and the kind of its host
model         brokers, clients, services
images        how container images read variables, and their defaults
compose       Docker Compose files
clientfiles   files of clients, Connect and Spark
operators     Strimzi's and CFK's resources
rules         the rules
findings      a finding, and text without secrets
linter        from files to a report
reachability  which clients can connect to which listener
fixes         corrected files
output        text, JSON, annotations for GitHub
"""
