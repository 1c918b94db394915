"""The commands of `kproxy migrate`.

arguments  options of several commands, and printing
copy       the commands `copy`, `pause`, `resume` and `status`
group      the click group of all commands
observe    the command `observe`
offsets    the command `offsets`
prepare    the commands `schema`, `plan`, `prepare` and `undo`
report     the command `report`
schemas    the command `schemas`
screen     the screen of a switch, and its log file
switch     the commands `switch`, `rollback` and `finish`
verify     the command `verify`
"""
