"""What a pasted message or a log means: the first cause, how to check, what to do. Offline, and pure but for reading.

explanation  `explain`: from a stream to an `Explanation`; its JSON
reading      lines of a text of any size, in bounded memory
patterns     the messages of `remedies`, made ready to be found
context      whether lines are about Kafka
findings     the messages in a text, counted
facts        addresses, nodes and topics in a line: all that is ever shown of it
numbers      sizes that are another protocol's first bytes
codes        Kafka's error codes
refining     what an address adds to a message
causes       which findings are causes, and which follow from them
sentences    one sentence about a cause
shown        an explanation for a terminal
"""
