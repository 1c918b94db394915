"""What clients use, and what must move together: the record of an observation, waves, and clients that kproxies miss.

collector     observes at all kproxies, for a time
coverage      what an observation did not record (pure)
observed      what clients used, merged from all kproxies; the file of it
replies       the lines of a kproxy at /observation, validated strictly (pure)
sourcestate   what the source knows: groups, transactional ids, producers, ends of logs
unseen        what was written to the source and passed no kproxy (pure)
waveboundary  the connections that a switch of a wave would cut (pure)
wavecuts      what the waves of the file cut (pure)
waves         the sets of clients, groups and topics that may move separately (pure)
wavetext      the waves as a picture for a terminal (pure)
"""
