# What the compiled form of responses.py knows of types.

cimport cython
from kproxy.proxy.relay.calls cimport Call
from kproxy.proxy.relay.inflight cimport InFlight, Run
from kproxy.protocol.rewrite.plain cimport PlainResponse
from kproxy.protocol.wire cimport headers


cdef class Responses:
    cdef public Call _call, _half_sent
    cdef public InFlight _in_flight
    cdef public Py_ssize_t _left
    cdef public object _localise, _on_rewritten, _on_unknown_apis, _response, _tail, on_busy
    cdef public bint begun

    @cython.locals(
        at=Py_ssize_t, end=Py_ssize_t, done=Py_ssize_t, stop=Py_ssize_t, after=Py_ssize_t, tail=Py_ssize_t,
        size=int, correlation_id=int, first="long long", next_id="long long", end_id="long long",
        edited=bint, plain=PlainResponse, call=Call, run=Run, in_flight=InFlight, view="const unsigned char[::1]",
    )
    cpdef take(self, chunk, double now)
