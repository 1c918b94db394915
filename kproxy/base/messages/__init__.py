"""kproxy's own messages: each is declared once, with its meaning, and the code that raises or logs it calls it.

A module has the messages of one section of docs/troubleshooting.md. They are on the ground because rooms of all wings
raise them, and `kproxy.advice`, which is below most of these rooms, reads them. A message has no code number: its words
are unique, so the page and `kproxy explain` find it by them, and one line of the log often holds two or three messages.

message       `Message`: the declaration
start         messages at start
reachability  messages about brokers that kproxy cannot reach
hops          messages about the proxies and SSH servers of `--via`
forwards      messages about forward commands, and addresses that no longer lead to their node
files         messages about certificates, keys and stores
clientlogins  messages about clients that log in at kproxy
logins        messages about kproxy's own logins
users         messages about the users file
sessions      messages about sessions that kproxy ends or refuses
runtime       messages while kproxy runs and when it stops
switches      messages about upstreams and the switch from one to the other
migrations    findings of `kproxy migrate switch`
schemas       findings of `kproxy migrate schemas`
"""
