"""The commands of `kproxy migrate`, as a person gives them.

copying      the commands copy, pause, resume, status
group        the group of commands
preparing    the commands plan, prepare, undo
status       where a migration stands, from the target alone
switching    the commands switch, rollback, finish
translating  the command offsets
verifying    the command `verify`
"""
