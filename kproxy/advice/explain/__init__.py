"""The meaning of a pasted message or a log: the first cause, how to check it, what to do.

The room works offline; only `linereader` reads from a stream, the rest is pure.

explanation    `explain`: from a stream to an `Explanation`; its JSON
linereader     lines of a text of any size, in bounded memory
patterns       the messages of `remedies`, prepared for the search
search         the records of a text, and their matches counted
languages      what operating systems say in other languages than English
wrapping       lines that a narrow window has broken within a message
shapes         records without what no answer depends on, so that each is examined once
matches        the messages that a record contains
progress       lines that show how far a client came
listing        brokers in the list of `kcat -L` whose addresses others can use only
servers        bootstrap servers that a text names beside the messages of its client
unlisted       failures in words that no table has
subject        whether lines are about Kafka, or about another system
facts          addresses, nodes and topics of a line; nothing else of a line is ever shown
numbers        sizes that are another protocol's first bytes
endings        when a connection has ended: as soon as it was ready, or during its login
codes          Kafka's error codes
hostnames      small signs in the names of hosts: containers, machines of clouds, personal computers
refine         faults that an address and its port show, together with the message
causes         which messages are causes, and which follow from them
reasons        the mistake that the notes of a cause's messages name, and the heading for it
sentences      one sentence about a cause
signs          the small signs that led to a cause, and what they leave unsure
output         the text of an explanation for a terminal
"""
