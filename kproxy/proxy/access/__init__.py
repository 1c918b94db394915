"""Access rules at work: refuses the requests that the access rules of a cluster forbid. Sans-IO.

    apis           the table of all APIs: their families, the names in their requests, and how a refusal looks
    names          reads the names of topics, groups and transactional ids in requests
    refusals       the answers to refused requests, with Kafka's own errors
    produce        Produce requests: their topics, without their records, and what is left of one without some
    autocreate     Metadata requests that create no topic
    sessionrules   the rules as the sessions of one user need them
    authorizer     judges the requests of one session

The rules are in `kproxy.config.access`. A rule is about a family of APIs and a name, and
perhaps about some of the users who log in at kproxy: then a session has other rules as soon as its user is known.

 * kproxy answers a refused request itself, in its place among the others, with the error of Kafka for it: for each
   topic, partition or group in the request, in the layout of its version. So the client reports what it would report
   if the cluster's ACLs had refused it, and continues. If the response has a text, kproxy's says which rule it was.
 * An API that the table does not have is refused: kproxy closes the connection, as nothing is known about the form
   of an answer. The APIs between brokers and controllers are refused in the same way. ApiVersions lists none of these.
 * If one request names what is allowed and what is forbidden, nothing of it reaches the broker; what is allowed
   gets OPERATION_NOT_ATTEMPTED, as in Kafka's own answer to such an AddPartitionsToTxn. Produce is the exception: a
   producer puts the records of all topics of a broker into one request, and so would never write to an allowed one. The
   forbidden topics are cut out of the request, and added to the response.
 * Metadata may create the topics that it names. Since version 4 a request says whether it may, and kproxy has it
   say no. Of older requests kproxy makes one of version 4, and of the response one of their version.
 * Reads cost nothing more: only the APIs of which something is forbidden are judged. The first bytes of a request
   decide about groups and transactional ids, and such a request passes as it comes. Of a refused Produce request,
   kproxy skips the records as they come. All else is bounded: `LONGEST_DECODED` and its neighbours. A large request is
   judged in steps. After `TURN` of work for one request or several, the rest waits for the next turn of the loop.
 * The rules prevent mistakes. They replace no ACLs: a client that can reach the brokers need not use kproxy.
"""
