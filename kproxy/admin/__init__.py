"""HTTP for operators: metrics, health, status. It shows what the app hands in and knows nothing of the proxy.

    requests      a request and the reply to it (pure)
    routes        the table: which pages there are and who may ask for them; the function that enforces it
    pages         what each path answers (no sockets)
    hosts         by which names they may be asked for (pure)
    bearer        the token: its file, and whether a request shows it
    connection    one HTTP/1.1 connection on asyncio streams with h11: limits, timeouts
    server        the bound address and its connections
    client        asking the admin endpoint of another kproxy

A new page is one function in `pages` and one line in `routes.TABLE`, other methods than GET included. This file imports
nothing: a command that asks another kproxy would wait for what only the server needs.
"""
