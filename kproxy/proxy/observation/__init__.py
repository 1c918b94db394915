"""What clients use at this kproxy: topics, groups, transactional ids, producer ids; for a time, in bounded memory.

    fetchtopics    the topics in Fetch and ShareFetch requests (pure)
    produceusage   the Produce requests of one session (sans-IO)
    sessionreader  reads the requests of one session (sans-IO)
    record         the bounded record of all clients (pure)
    observation    begins and ends the reading, and writes the record as lines of JSON

`kproxy migrate observe` begins it at every kproxy of a move, and reads the record: it says which clients, topics and
groups must move together.

 * Nothing is read while there is no observer: a session has its own steps then (`kproxy.proxy.relay.session`).
 * Each observer has a name and an end of its own. When the last has ended, the record is forgotten.
 * Requests are read as the client sent them, before access rules and before a hold: what a broker or kproxy refuses is
    recorded too. Responses are not read. Topics may have ids in place of names; the reader of the record resolves them.
 * Of a Produce request, the names and the headers of batches are read, and never a record.
 * Each limit of the record counts what it left out. Requests whose size makes them slow to read share a budget
    (`record.Budget`); what is beyond it is counted, too.
"""
