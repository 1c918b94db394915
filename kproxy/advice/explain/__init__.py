"""The meaning of a pasted message or a log: the first cause, how to check it, what to do.

The room works offline; only `linereader` reads from a stream, the rest is pure.

explanation    `explain`: from a stream to an `Explanation`; its JSON
linereader     lines of a text of any size, in bounded memory
patterns       the messages of `remedies`, prepared for the search
matches        the messages that a text contains, counted; whether lines are about Kafka
facts          addresses, nodes and topics of a line; nothing else of a line is ever shown
numbers        sizes that are another protocol's first bytes
codes          Kafka's error codes
causes         which messages are causes, and which follow from them; faults that an address shows
sentences      one sentence about a cause
output         the text of an explanation for a terminal
"""
