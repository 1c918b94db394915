"""`kproxy demo`: a story for a terminal. A real client cannot use a real cluster; with kproxy, it can.

story    the story
client   what the client does
proxy    starts kproxy as a user would
"""
