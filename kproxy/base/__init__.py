"""Ground for all other packages: errors, addresses, text, processes. It imports nothing of kproxy.

address         a host and a port: parsing and printing
addressclass    the class of an advertised address: a container's name, localhost, a private address
compilation     whether the compiled data plane runs, and how to run without it (`KPROXY_PURE`)
completion      parts of completions that several commands share
diagnostic      a problem or a note of a check: its severity, and its forms for terminals, programs and CI
ephemeralports  which connections of this machine use a local port
errors          the exception classes; the class says who must act on an error
exits           the last edge of a command: errors as lines, exit codes
faults          `Fault`: the name of each cause of a failing connection
format          sizes, durations, counts and lists as text for people
java            finding Java on this machine
messages        kproxy's own messages, each declared once with its meaning
packages        the name of kproxy's distribution, and the command that installs an optional package
printable       escaping and truncating text that kproxy did not write itself
process         telling processes apart although ids are reused; running a program
regularfile     reading files that may be replaced while kproxy runs: bounded, and regular files only; which are private
repeats         repeated log lines: one in 30 s, with the number of suppressed ones
watchdog        ends processes whose parent has died
yamltree        YAML as nodes that know their lines, within bounds
"""
