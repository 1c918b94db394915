"""`kproxy demo`: a real cluster that a real client cannot use, and then can. A story for a terminal.

story    the story
client   what the client does
proxy    kproxy, started as a user would
"""
