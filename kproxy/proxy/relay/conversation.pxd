# What the compiled form of conversation.py knows of types.

cimport cython
from kproxy.proxy.relay.calls cimport Call
from kproxy.proxy.relay.inflight cimport InFlight
from kproxy.proxy.relay.requests cimport Acks
from kproxy.protocol.wire cimport headers


cdef class Conversation:
    cdef public Acks _acks
    cdef public Call _half_sent
    cdef public InFlight _in_flight
    cdef public Py_ssize_t _head_limit, _left_to_broker, _max_request
    cdef public object _all_calls, _authenticator, _calls, _client_tail, _discarded, _guarded, _login_apis, _on_first, _on_handshake, _on_token, _on_write, _responses
    cdef public object answers, from_upstream, introduction, used_calls
    cdef public Py_ssize_t hold_count
    cdef public bint requested

    @cython.locals(
        at=Py_ssize_t, end=Py_ssize_t, stop=Py_ssize_t, after=Py_ssize_t, limit=Py_ssize_t, size=int,
        correlation_id=int, next_code="unsigned int", code="long long", asked="long long", first="long long", end_id="long long",
        call=Call, next_call=Call, in_flight=InFlight, view="const unsigned char[::1]",
    )
    cpdef from_client(self, chunk, double now)
