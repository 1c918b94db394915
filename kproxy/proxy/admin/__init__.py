"""HTTP for operators: metrics, health, status. It shows what the app passes in, and knows nothing of the proxy.

    requests      a request and its reply; the Host names and peers that kproxy accepts (pure)
    routes        the table of paths and their access rules; the function that enforces the table
    handlers      the reply of each path (no sockets)
    statuspage    the status page that a browser shows: its document, style and script
    bearer        the token: reads its file, and checks whether a request shows it
    connection    one HTTP/1.1 connection on asyncio streams with h11: limits, timeouts
    tlsstream     TLS on such a connection, as configured
    server        the bound address and its connections
    client        the client of the admin endpoint of another kproxy
    neighbour     another kproxy that may run on this machine: its clusters and its local addresses

To add a path, write a function in `handlers` and add a line to `routes.TABLE`, also for methods other than GET. This
file imports nothing: otherwise a command that asks another kproxy would load code that only the server needs.
"""
