"""`kproxy demo`: a story for a terminal, in which a real client cannot use a real cluster, and with kproxy it can.

story    the story
client   the client of the story
proxy    starts kproxy as a user would
"""
