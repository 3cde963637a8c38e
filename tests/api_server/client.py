"""A small synchronous client for the tests of the stand-in server."""

from __future__ import annotations

import http.client
import json
from collections.abc import Generator
from typing import Any

from tests.api_server import Server

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


class Client:
    """A client that opens a new connection for each request."""

    def __init__(self, server: Server, actor: str = "client") -> None:
        self._address = server.url.removeprefix("http://")
        self._headers = {"Authorization": f"Bearer {actor}"}
        self.headers: dict[str, str] = {}

    def send(self, method: str, path: str, body: Any = None, kind: str = "application/json", accept: str = "") -> tuple[int, Object]:
        """Send a request, keep the headers of the answer, and return its status and body."""
        connection = http.client.HTTPConnection(self._address, timeout=10)
        headers = self._headers | {"Content-Type": kind} | ({"Accept": accept} if accept else {})
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        self.headers = dict(response.getheaders())
        connection.close()
        return response.status, json.loads(text) if text.lstrip().startswith((b"{", b"[")) else {"text": text.decode()}

    def get(self, path: str, accept: str = "") -> Object:
        """Return the body of a successful GET."""
        code, body = self.send("GET", path, accept=accept)
        assert code == 200, body
        return body

    def patch(self, path: str, body: Any, kind: str = "merge") -> tuple[int, Object]:
        """Send a patch."""
        return self.send("PATCH", path, body, f"application/{kind}-patch+json")

    def bind(self, name: str, node: str, **metadata: str) -> tuple[int, Object]:
        """Send a Binding."""
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
        return self.send("POST", f"{PODS}/{name}/binding", body)

    def evict(self, name: str, **options: Any) -> tuple[int, Object]:
        """Send an Eviction."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
        return self.send("POST", f"{PODS}/{name}/eviction", body)

    def watch(self, path: str, query: str = "") -> Generator[Object, None, None]:
        """Yield the events of a watch until it ends."""
        connection = http.client.HTTPConnection(self._address, timeout=10)
        connection.request("GET", f"{path}?watch=true&{query}", headers=self._headers)
        response = connection.getresponse()
        if response.status != 200:
            yield {"type": "STATUS", "object": json.loads(response.read())}
            return
        try:
            while line := response.readline():
                yield json.loads(line)
        finally:
            connection.close()
