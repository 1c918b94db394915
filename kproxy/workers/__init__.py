"""Which process carries the sessions.

here       all sessions in this process
"""
