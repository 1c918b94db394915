"""Records of drivers in the state topic on the target, from which another driver resumes if one dies.

driver          the process that copies, and the orders that other commands send to it
switch_journal  the decisions of a switch or rollback
"""
