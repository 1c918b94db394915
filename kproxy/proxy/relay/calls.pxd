# What the compiled form of calls.py knows of types.

from kproxy.protocol.rewrite.plain cimport PlainResponse


cdef class Call:
    cdef public object api, authorizer, counters, guard, highest, plan
    cdef public int key, version
    cdef public bint edited, is_judged, is_local, special
    cdef public PlainResponse plain


cdef class OwnCall(Call):
    cdef public object _on_response


cdef class LocalCall(Call):
    cdef public object answer
    cdef public Py_ssize_t size
