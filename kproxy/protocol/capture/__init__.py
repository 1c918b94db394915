"""Redacted copies of the frames of a session, for a packet capture. Pure: no I/O, no clock.

redaction       which fields a copy contains, and which it leaves empty
copyplan        compiles a message definition and a version to the steps of a copy
framecopy       copies one frame by its plan, from chunks of any size
sessioncapture  both directions of one session: identifies each frame, and copies it
"""
