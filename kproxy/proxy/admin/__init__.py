"""HTTP for operators: metrics, health, status. It shows what the app passes in, and knows nothing of the proxy.

    requests      a request and the reply to it (pure)
    routes        the table of pages and who may ask for them; the function that enforces the table
    pages         what each page answers (no sockets)
    page          the status page that a browser shows: its document, style and script
    hosts         the names under which a client may ask for the pages (pure)
    bearer        the token: reads its file, and checks whether a request shows it
    connection    one HTTP/1.1 connection on asyncio streams with h11: limits, timeouts
    encryption    TLS as configured
    secured       TLS on such a connection
    server        the bound address and its connections
    client        asks the admin endpoint of another kproxy
    neighbour     what the kproxy says that may run on this machine already

To add a page, write a function in `pages` and add a line to `routes.TABLE`, also for methods other than GET. This file
imports nothing: otherwise a command that asks another kproxy would load what only the server needs.
"""
