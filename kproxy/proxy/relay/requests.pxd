# What the compiled form of requests.py knows of types.

cimport cython
from kproxy.proxy.relay.calls cimport Call
from kproxy.protocol.wire cimport headers


cdef class Acks:
    cdef public Call _call
    cdef public bytes _head
    cdef public object produces

    @cython.locals(stop=Py_ssize_t, acks_at=object)
    cpdef expects_response(self, const unsigned char[::1] chunk, Py_ssize_t at, Py_ssize_t after, Py_ssize_t end, Call call)
