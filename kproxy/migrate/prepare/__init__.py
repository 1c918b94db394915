"""Does the changes of a plan on the target, and takes them back.

doing      does changes on the target, or only tries them
examining  asks both clusters and makes the plan
journal    what was done, in the state topic
prepare    does the changes
undo       takes them back
"""
