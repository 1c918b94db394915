"""Redacted copies of the frames of a session, for a packet capture. Pure: no I/O, no clock.

redaction       which fields a copy contains, and which it leaves empty
framecopy       copies one frame by its message definition, from chunks of any size
sessioncapture  both directions of one session: identifies each frame, and copies it
"""
