"""Applies the changes of a plan to the target, and undoes them.

change_journal  the applied changes, in the state topic
cluster_pair    connections to both clusters, and the plan made from their inventories
preparation     applies the changes
takenids        the producer ids of the source that kproxy has used up, in the state topic
target_admin    sends changes to the target, or only validates them
undo            reverts the changes
"""
