"""HTTP for operators: metrics, health, status. It shows what the app hands in and knows nothing of the proxy.

    pages         what each path answers (no sockets)
    hosts         by which names they may be asked for (pure)
    connection    one HTTP/1.1 connection on asyncio streams with h11: limits, timeouts
    server        the bound address and its connections

A new page is one function and one line in `pages.ROUTES`, other methods than GET included.
"""

from kproxy.admin.pages import AdminPages, Readiness
from kproxy.admin.server import AdminServer, start_admin

__all__ = ["AdminPages", "AdminServer", "Readiness", "start_admin"]
