# What the compiled form of pump.py knows of types.


cdef class Pump:
    cdef public object _spare, chunk, selector, window
    cdef public Py_ssize_t _kept_chunks
