# What the compiled form of side.py knows of types.

from kproxy.proxy.relay.pump cimport Pump


cdef class Side:
    cdef public Pump _pump
    cdef public object _kept_chunk, _watched, name, on_event, pending, sock, step
    cdef public bint _expects_rest, ended
