"""Who carries the sessions: this process alone, or, with `--workers`, others that it directs.

    here       all sessions in this process
    crew       the main process's side of the workers: who gets which client, their numbers, their replacement
    answers    what the main process answers to a worker that asks about a cluster
    worker     a worker: sessions, and nothing that there must be one of
    member     one worker, as the main process has it
    told       what workers are asked for now and then: their numbers and sessions
    pulse      whether a process answers, and the pauses before it is replaced
    forker     the process that forks the workers, as the main process has it
    forking    that process
    batch      what a worker has seen pass, told to the main process now and then
    copies     copies of frames that a worker has made, given to the main process in the same way
    messages   what the main process and a worker say to each other

The main process has everything there must be one of: listeners, topology, routes, admin endpoint, log. It accepts,
waits for a client's first bytes, and passes the connection on (SCM_RIGHTS) to the worker that has the fewest.
"""
