"""Looking on at live requests: who is told what, and how much of it may wait (pure, but for the clock).

feed    gives what observers see to those who look on, each with a filter and a bounded queue
frames  the same for copies of frames
lines   an exchange as a line of JSON, and back
"""
