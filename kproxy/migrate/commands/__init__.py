"""The commands of `kproxy migrate`.

arguments  options of several commands, and printing
copy       the commands `copy`, `pause`, `resume` and `status`
group      the click group of all commands
observe    the command `observe`
offsets    the command `offsets`
prepare    the commands `schema`, `plan`, `prepare` and `undo`
schemas    the command `schemas`
screen     the screen of a switch, and its log file
status     the status of a migration, read from the target alone
switch     the commands `switch`, `rollback` and `finish`
verify     the command `verify`
"""
