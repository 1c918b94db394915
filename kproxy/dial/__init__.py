"""Reaching an upstream address.

sockets  options of the proxy's TCP sockets
routes   which addresses to dial for an advertised one (pure)
dialer   resolving and connecting; operating system errors become UpstreamError here and nowhere else
"""
