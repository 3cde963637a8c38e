"""GETs through ``kubectl proxy``, of a program that serves two answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kubestow.live.capture_kubectl import Kubectl, RequestRefused
from kubestow.live.capture_proxy import KubectlProxy

_PROGRAM = """#!{python} -IS
import os, socketserver, sys
from http.server import BaseHTTPRequestHandler
words = sys.argv[1:]
print(os.getpid(), *words, file=open({log!r}, "a"))
if "proxy" not in words:
    if words[-1] == "/refused":
        print("Error from server (Forbidden): not you", file=sys.stderr)
        sys.exit(1)
    print("plain " + words[-1], end="")
    sys.exit()
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        data = ("proxied " + self.path).encode()
        self.send_response(403 if self.path == "/refused" else 200)
        if self.path == "/old":
            self.send_header("Warning", '299 - "so old"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        if self.path == "/last":
            os._exit(1)
    def log_message(self, *_): pass
path = next(word for word in words if word.startswith("--unix-socket=")).partition("=")[2]
server = socketserver.UnixStreamServer(path, Handler)
print("Starting to serve on", path, flush=True)
server.serve_forever()
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    program = tmp_path / "kubectl"
    program.write_text(_PROGRAM.format(python=sys.executable, log=str(tmp_path / "log")))
    program.chmod(0o755)
    return Kubectl(str(program), ["--context=here"], 30.0)


def calls(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "log").read_text().splitlines()]


def alive(pid: int) -> bool:
    """Return True if a process runs. One that has ended may wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(end: object) -> None:
    while not end():  # type: ignore[operator]
        time.sleep(0.02)


def test_one_kubectl_answers_all_gets_and_ends(kubectl: Kubectl, tmp_path: Path) -> None:
    with KubectlProxy(kubectl) as proxy:
        assert [proxy.get(url) for url in ("/a?limit=1", "/old", "/b")] == [b"proxied /a?limit=1", b"proxied /old", b"proxied /b"]
        (call,) = calls(tmp_path)
        assert call[1:3] == ["--context=here", "proxy"]
        (folder,) = tmp_path.glob("kubestow-proxy-*")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(kubectl.heard) == ["Warning: so old"]
    assert not folder.exists()
    wait_for(lambda: not alive(int(call[0])))


def test_a_refusal_has_the_words_of_kubectl(kubectl: Kubectl, tmp_path: Path) -> None:
    with KubectlProxy(kubectl) as proxy, pytest.raises(RequestRefused, match="not you"):
        proxy.get("/refused")
    assert [call[-1] for call in calls(tmp_path)][1:] == ["/refused"]


def test_without_a_proxy_each_get_is_a_kubectl(kubectl: Kubectl, tmp_path: Path) -> None:
    with KubectlProxy(kubectl) as proxy:
        assert proxy.get("/last") == b"proxied /last"
        assert [proxy.get("/a"), proxy.get("/b")] == [b"plain /a", b"plain /b"], "it has ended"
    program = tmp_path / "kubectl"
    program.write_text(program.read_text().replace('if "proxy" not in words:', 'if "proxy" in words: sys.exit(2)\nelse:'))
    with KubectlProxy(kubectl) as proxy:
        assert proxy.get("/a") == b"plain /a"
    assert list(tmp_path.glob("kubestow-proxy-*")) == []


def test_the_proxy_ends_with_a_program_that_is_killed(kubectl: Kubectl, tmp_path: Path) -> None:
    driver = (
        "import os, sys\nfrom kubestow.live.capture_kubectl import Kubectl\nfrom kubestow.live.capture_proxy import KubectlProxy\n"
        "with KubectlProxy(Kubectl(sys.argv[1], [], 30.0)) as proxy:\n    proxy.get('/a')\n    os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", driver, str(tmp_path / "kubectl")], check=False, env={**os.environ, "TMPDIR": str(tmp_path)})
    ((pid, *_),) = calls(tmp_path)
    wait_for(lambda: not alive(int(pid)) and not list(tmp_path.glob("kubestow-proxy-*")))
