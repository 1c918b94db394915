"""What drivers note in the state topic on the target, so that another one can go on where one died.

driver  who copies, and the orders of other commands
switch  moving the clients, and the way back: a package of its own
"""
