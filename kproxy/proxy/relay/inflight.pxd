# What the compiled form of inflight.py knows of types.

from kproxy.proxy.relay.calls cimport LocalCall, Call


cdef class Run:
    cdef public long long first, end_id
    cdef public Call call
    cdef public double since


cdef class InFlight:
    cdef public object runs
    cdef public Py_ssize_t count, local_bytes, local_runs
    cdef public bint tokens, tokens_end_here

    cpdef note(self, Call call, long long first, long long end_id, double now)
