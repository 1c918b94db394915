"""`kproxy discover`: where brokers could be, and the command that leads to them. It writes nothing, and asks no broker.

found       what was found in one place, and what could not be looked at (pure)
brokers     from brokers in containers to the command for them (pure)
docker      containers of Docker and Podman, through their socket
files       Compose files and client configurations in a directory
kubernetes  what runs in a Kubernetes cluster, through its API server
listening   what listens on this machine, port-forwards among it
tools       what other tools on this machine are configured for
looking     all places together
present     text and JSON (pure)
"""
