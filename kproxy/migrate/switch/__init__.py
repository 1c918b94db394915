"""`kproxy migrate switch`: moving the clients of all kproxies to the other cluster at once, and back.

fleet                the kproxies of a switch: their addresses, and concurrent requests to all of them
kproxy_replies       the replies of a kproxy at /switch (pure)
readiness            checks that the kproxies can be switched (pure)
client_effects       what clients observe during a switch (pure)
transactions         open transactions of a cluster, and ending them
hanging              transactions that are open in a log, and that no coordinator knows
client_selection     the options `--only` and `--wave`: the clients that are switched by themselves (pure)
expected_users       the users that must be able to log in where clients are moved, and their rights (pure)
user_logins          lets the kproxies try these logins and rights
final_sync           the last round of the copy, its verification, and the last positions
sync_timings         the duration of each step of a final sync
preflight            the checks before writes are held
drive                runs the state machine of `kproxy.proxy.switching` against real kproxies
switch_run           what a switch and a rollback share, from the preflight to the release
synced_switch        a switch, or a rollback with a copy back: the last records are copied in the hold
unseen_check         who goes round the kproxies, before a switch and after it
observation_run      an observation of what clients use, from its beginning to its end
opening              what a command of a switch opens, and what ends it by a signal
resumption           continuing a switch or rollback whose driver has ended
operations           the commands `switch` and `rollback`
inverse_offset_map   states and offset maps of a copy in the other direction (pure)
reverse_copy         the copy from the target to the source, and the rollback that uses it
partial_rollback     the rollback of clients that were switched by themselves and only read
checkpoint_rollback  offset maps for a Spark checkpoint after a rollback
wave_sides           which topics a switch has, and which side all else is on
wave_rollback        the rollback of a wave whose records were copied back
wave_alarms          alarms about topics of moved waves that are still used on the source
source_use           the use of both sides after a switch
finish               the end of a migration
report               the result of a switch as text and as JSON, and the next command
"""
