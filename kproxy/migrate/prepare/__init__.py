"""Applies the changes of a plan to the target, and undoes them.

change_journal  the applied changes, in the state topic
cluster_pair    connections to both clusters, and the plan made from their inventories
preparation     applies the changes
target_admin    sends changes to the target, or only validates them
undo            reverts the changes
"""
