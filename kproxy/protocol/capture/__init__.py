"""Copies of the frames of a session, for a packet capture, without what must not be shown. Pure: no I/O, no clock.

leaveout  which fields a copy has, and which it leaves empty
plan      compiles a message definition and a version to the steps of a copy
copy      copies one frame by its plan, from bytes that come in any chunks
capture   both sides of one session: which frame is what, and its copy
"""
