"""Named set-ups: `kproxy run @staging` for one terminal, `kproxy up @staging` in the background.

commands    up, down, list
places      where profiles and what belongs to them are on this machine
ports       which local ports a profile has, so that several at once do not collide
background  a kproxy that goes on without a terminal: beginning it, ending it, those that there are
units       files for systemd and launchd, which begin it by themselves
"""
