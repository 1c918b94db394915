# The compiled form of headers.py: as fast as C, and without objects. The caller has checked that the bytes exist.

from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcmp

ctypedef const unsigned char byte


cdef inline uint32_t _word(const byte* p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline (int32_t, uint32_t, int32_t) read_request(const byte[::1] buffer, Py_ssize_t at):
    cdef const byte* p = &buffer[at + 11] - 11
    return <int32_t>_word(p), _word(p + 4), <int32_t>_word(p + 8)


cdef inline (int32_t, int32_t) read_response(const byte[::1] buffer, Py_ssize_t at):
    cdef const byte* p = &buffer[at + 7] - 7
    return <int32_t>_word(p), <int32_t>_word(p + 4)


cdef inline bint matches_at(bytes expected, const byte[::1] buffer, Py_ssize_t at):
    cdef Py_ssize_t size = len(expected)
    return size == 0 or (at + size <= buffer.shape[0] and memcmp(&buffer[at], <const byte*>expected, size) == 0)
