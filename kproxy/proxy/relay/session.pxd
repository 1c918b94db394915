# What the compiled form of session.py knows of types.

from kproxy.proxy.relay.conversation cimport Conversation
from kproxy.proxy.relay.pump cimport Pump
from kproxy.proxy.relay.side cimport Side


cdef class Session:
    cdef public Conversation conversation
    cdef public Pump _pump
    cdef public Side client, upstream
    cdef public object _observation, _on_end, _on_held, _steps, ended_by, on_upstream_end, traffic
    cdef public Py_ssize_t unacked_writes
    cdef public bint _busy, _draining, closed

    cpdef _send(self, Side side, data)
