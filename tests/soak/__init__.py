"""Chaos: real brokers, kproxy processes and clients, and faults of every kind among them for as long as one likes.

`timetable` says from a seed what happens when; `brokerfaults`, `roadfaults`, `proxyfaults` and `strangers` do it;
`clients` send and read records meanwhile; `records`, `proxy` and `watch` say what must hold, all the time and at the
end; `chaos` puts them together. `arrivals` is what the lines to the brokers have seen arrive, and `forwards` a run in
which only these lines change.
"""
