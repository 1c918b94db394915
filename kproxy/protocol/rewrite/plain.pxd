# What the compiled form of plain.py knows of types.

cimport cython


cdef class PlainElement:
    cdef public Py_ssize_t _count, _fixed, _lowest

    @cython.locals(
        stop=Py_ssize_t, to_count=Py_ssize_t, to_size=Py_ssize_t, lowest=Py_ssize_t, before=Py_ssize_t, step_one=Py_ssize_t,
        step_two=Py_ssize_t, step_three=Py_ssize_t, hopped=Py_ssize_t, alike=Py_ssize_t, more=Py_ssize_t, most=Py_ssize_t,
        count=Py_ssize_t, size=Py_ssize_t,
    )
    cpdef (Py_ssize_t, Py_ssize_t) hop(self, const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end, Py_ssize_t left)


cdef class PlainResponse:
    cdef public Py_ssize_t _behind, _lead
    cdef public bint _named
    cdef public PlainElement _partition

    cpdef bint names_no_endpoint(self, const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end) except -1

    @cython.locals(
        topics=Py_ssize_t, partitions=Py_ssize_t, first=Py_ssize_t, left=Py_ssize_t, partition=PlainElement, named=bint
    )
    cpdef Py_ssize_t _hop_over_topics(self, const unsigned char[::1] buffer, Py_ssize_t at, Py_ssize_t end) except? -1


cdef (Py_ssize_t, Py_ssize_t) _wide(const unsigned char[::1] buffer, Py_ssize_t first, Py_ssize_t at)
