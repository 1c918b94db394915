"""Named set-ups: `kproxy run @staging` for one terminal, `kproxy up @staging` in the background.

commands    up, down, list
paths       the directories and files of profiles on this machine
ports       the local ports of a profile, so that several can run at once
background  kproxies that run without a terminal: starting, stopping and finding them
units       files with which systemd and launchd start a profile's kproxy
"""
