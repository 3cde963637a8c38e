"""Proxies of the environment: examples of Go's golang.org/x/net/http/httpproxy, whose rules these are."""

from __future__ import annotations

import pytest

from kubestow.live.api.proxies import from_environment

PROXY = "http://proxy.corp:3128"


@pytest.mark.parametrize(
    ("url", "exceptions", "used"),
    [
        ("https://api.corp:6443", "", True),
        ("https://localhost:6443", "", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://[::1]:6443", "", False),
        ("https://api.corp", "*", False),
        ("https://api.corp", "corp", False),
        ("https://api.corp", ".corp", False),
        ("https://corp", ".corp", True),
        ("https://corp", "corp", False),
        ("https://notcorp", "corp", True),
        ("https://api.corp", "*.corp", False),
        ("https://api.corp:6443", "api.corp:6443", False),
        ("https://api.corp:6443", "api.corp:443", True),
        ("https://api.corp", "api.corp:443", False),
        ("https://API.Corp", " api.corp , x", False),
        ("https://10.1.2.3:6443", "10.0.0.0/8", False),
        ("https://11.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", False),
        ("https://10.1.2.3:6443", "2.3", True),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://[fd00::1]:6443", "fd00::1", False),
        ("https://api.corp", "10.0.0.0/8,,what/ever", True),
    ],
)
def test_no_proxy_has_the_rules_of_go(url: str, exceptions: str, used: bool) -> None:
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}
    assert from_environment(url, environ) == (PROXY if used else None)
    assert from_environment(url, {key.lower(): value for key, value in environ.items()}) == (PROXY if used else None)


def test_each_scheme_has_its_own_proxy_and_one_without_a_scheme_is_http() -> None:
    environ = {"HTTP_PROXY": "plain:1", "HTTPS_PROXY": "https://safe:2"}
    assert from_environment("http://api.corp", environ) == "http://plain:1"
    assert from_environment("https://api.corp", environ) == "https://safe:2"
    assert from_environment("https://api.corp", {}) is None
