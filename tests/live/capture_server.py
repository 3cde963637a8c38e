"""The stand-in's API server on a port of this machine, for the real kubectl."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.live.capture_stand_in import Server


@contextmanager
def serving(server: Server) -> Iterator[int]:
    """The port of 127.0.0.1 on which a server answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = server.discovery(urlsplit(self.path).path)
            code, body = (200, found) if found is not None else server.answer(self.path)
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if server.warn:
                self.send_header("Warning", f'299 - "{server.warn}"')
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        try:
            yield http.server_address[1]
        finally:
            http.shutdown()
