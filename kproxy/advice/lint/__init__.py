"""`kproxy lint`: mistakes in the listeners and clients of Kafka configurations, found before they are deployed.

A reader for each kind of file makes brokers, clients and the networks between them of it; each value has its location
in the file. Rules check these, whatever file they come from, and return findings. Only `source` and `fixes` touch
files; nothing here touches the network.

source          the text of a file, locations in it, edits to it
value           a value of a file, and the edits that replace it
properties      java.util.Properties, with locations
tree            YAML and JSON, with locations and bounds
variables       variables of Docker Compose, and files of variables
filekinds       the kinds of files, and how to recognise them
endpoint        an entry of listeners, and the kind of its host
container       containers: names, networks, published ports, variables
client          clients: bootstrap servers and settings
model           brokers, and the content of all files
images          how container images read variables, and their defaults
compose         Docker Compose files
workloads       workloads and ConfigMaps of Kubernetes
operators       Strimzi's and CFK's resources
helmvalues      values of Helm charts
redpanda        redpanda.yaml, and the flags of Redpanda
clientsettings  the clients in the settings of any file
commandline     bootstrap servers on the command lines of containers
dotnet          names of settings in appsettings.json, as librdkafka has them
rules           the rules
findings        a finding, and text without secrets
linter          from files to a report
reachability    which clients can connect to which listener
fixes           corrected files
output          text, JSON, annotations for GitHub
"""
