"""The part of a Kubernetes API server that Spark needs to create pods: it accepts every object, and runs none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class KubeApi:
    """The created objects in their order."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.created: list[dict[str, Any]] = []

    def pods(self, role: str) -> list[dict[str, Any]]:
        """Return the pods with Spark's label for a role, `driver` or `executor`."""
        return [one for one in self.created if one["kind"] == "Pod" and one["metadata"]["labels"]["spark-role"] == role]


@contextmanager
def kube_api() -> Iterator[KubeApi]:
    """Run an API server on a free port."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if "watch=true" in self.path:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                ended.wait()  # nothing ever changes
                self.close_connection = True
            elif self.path.partition("?")[0].rpartition("/")[2] in ("pods", "configmaps", "persistentvolumeclaims"):
                metadata = {"resourceVersion": "1"}
                self._answer(200, {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": []})
            else:
                self._answer(404, {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404})

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            api.created.append(given)
            metadata = {**given["metadata"], "uid": str(len(api.created)), "resourceVersion": "1"}
            self._answer(201, {**given, "metadata": metadata})

        do_PATCH = do_POST  # "apply": creates as well

        def do_DELETE(self) -> None:
            self._answer(200, {"apiVersion": "v1", "kind": "Status", "status": "Success"})

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        api = KubeApi(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield api
        finally:
            ended.set()
            server.shutdown()
            thread.join()
