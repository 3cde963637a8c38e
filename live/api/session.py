"""HTTP sessions from a kubeconfig: certificates, tokens, proxies, and the client library's connections."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config import incluster_config as pods
from multidict import CIMultiDict

from kubestow.live.api import exec_plugin, proxies
from kubestow.live.api.exec_plugin import CredentialsError
from kubestow.live.api.kubeconfig import ApiTarget, Settings


@dataclass(frozen=True)
class Session:
    """Open connections to a server.

    Attributes:
        server: URL of the server.
        client: The library's connections.
        headers: Headers of each request.
        expires: Time after which the session must be replaced; None if it does not expire.
    """

    server: str
    client: Any
    headers: CIMultiDict[str]
    expires: datetime | None = None


async def open_session(target: ApiTarget | None) -> Session:
    """Open a session for a target; None means the cluster in whose pod this runs.

    Raises:
        CredentialsError: the kubeconfig names missing files, contradicts itself, or uses an unsupported method.
    """
    if target is None:
        return _in_cluster()
    server = _server(target)
    configuration = Configuration(host=server)
    configuration.tls_server_name = _text(target.cluster, "tls-server-name") or None
    configuration.proxy = _proxy(_text(target.cluster, "proxy-url"), server)
    headers = _impersonation(target.user)
    if target.cluster.get("disable-compression"):
        headers["Accept-Encoding"] = "identity"
    user, expires = target.user, None
    if server.startswith("https://"):  # like kubectl, send no credentials without TLS
        user, expires = await _logged_in(target)
        _verification(configuration, target.cluster)
        if found := _authorization(user):
            headers["Authorization"] = found
    rest_client = _rest(configuration)
    if server.startswith("https://"):
        _certificate(rest_client.ssl_context, user)
    return Session(server, rest_client, headers, expires)


def _in_cluster() -> Session:
    configuration = Configuration()
    try:
        # Attributes of the module, so that tests can replace them.
        pods.InClusterConfigLoader(pods.SERVICE_TOKEN_FILENAME, pods.SERVICE_CERT_FILENAME).load_and_set(configuration)
    except (ConfigException, OSError):
        raise CredentialsError(
            "there is no kubeconfig, and this is not a pod of a cluster; expected one in KUBECONFIG or ~/.kube/config"
        ) from None
    token = configuration.api_key["BearerToken"].partition(" ")[2].strip()
    server = str(configuration.host)
    configuration.proxy = _proxy("", server)
    headers = CIMultiDict({"Authorization": f"Bearer {token}"})
    return Session(server, _rest(configuration), headers)


def _rest(configuration: Any) -> Any:
    """Return the library's HTTP client with the proxy and TLS rules of kubectl, without a limit on connections.

    Raises:
        CredentialsError: the certificate authority cannot be read.
    """
    configuration.connection_pool_maxsize = 0
    # Proxies are chosen by kubectl's rules, which differ from those of aiohttp.
    configuration.client_session_kwargs = {"trust_env": False, "cookie_jar": aiohttp.DummyCookieJar()}
    # Python 3.13 refuses authorities without a key identifier, which many clusters generate.
    configuration.disable_strict_ssl_verification = True
    try:
        return RESTClientObject(configuration)
    except (OSError, ValueError) as error:  # ssl errors are subclasses
        raise CredentialsError(f"certificate-authority: {_words(error)}; expected certificates in PEM") from None


def _text(settings: Settings, key: str) -> str:
    value = settings.get(key)
    if value is not None and not isinstance(value, str):
        raise CredentialsError(f"{key} of the kubeconfig: expected text")
    return value or ""


def _server(target: ApiTarget) -> str:
    server = _text(target.cluster, "server")
    if not server:
        raise CredentialsError(f"context {target.context}: its cluster has no server; expected https://HOST[:PORT]")
    if "://" not in server:
        server = f"{'https' if _tls(target.cluster) else 'http'}://{server}"
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise CredentialsError(f"context {target.context}: server: got {server[:200]!r}, expected https://HOST[:PORT]")
    return server.rstrip("/")


def _tls(cluster: Settings) -> bool:
    return any(cluster.get(key) for key in ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"))


def _proxy(named: str, server: str) -> str | None:
    found = named or proxies.from_environment(server)
    scheme = urlsplit(found).scheme if found else "http"
    if scheme not in ("http", "https"):
        where = "proxy-url of the kubeconfig" if named else "HTTPS_PROXY"
        raise CredentialsError(f"{where}: got a {scheme} proxy, expected http:// or https://")
    return found


def _impersonation(user: Settings) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict({"Accept": "application/json", "User-Agent": "kubestow"})
    if name := _text(user, "as"):
        headers["Impersonate-User"] = name
        if uid := _text(user, "as-uid"):
            headers["Impersonate-Uid"] = uid
        for group in user.get("as-groups") or ():
            headers.add("Impersonate-Group", str(group))
        for key, values in (user.get("as-user-extra") or {}).items():
            for value in values or ():
                headers.add(f"Impersonate-Extra-{quote(str(key), safe='')}", str(value))
    return headers


async def _logged_in(target: ApiTarget) -> tuple[Settings, datetime | None]:
    """Return the user's settings with a token or certificate, and their expiry. Runs exec plugins if needed."""
    user = dict(target.user)
    provider = user.get("auth-provider")
    if isinstance(provider, dict):
        token = (provider.get("config") or {}).get("id-token") if provider.get("name") == "oidc" else None
        if not token:
            name = str(provider.get("name"))[:60]
            raise CredentialsError(
                f"context {target.context}: auth-provider {name} is not supported; expected exec, a token or a certificate"
            )
        user["token"] = token  # kubectl renews it and stores it in the kubeconfig
    plugin = user.get("exec")
    if not plugin or user.get("token") or user.get("tokenFile"):
        return user, None
    found = await exec_plugin.run(plugin, _with_authority(target.cluster))
    if found.token:
        user["token"] = found.token
    if found.certificate:
        user["client-certificate-data"] = base64.b64encode(found.certificate.encode()).decode()
        user["client-key-data"] = base64.b64encode(found.key.encode()).decode()
    return user, found.expires


def _with_authority(cluster: Settings) -> Settings:
    """Return the cluster's settings for plugins, with the certificate authority inline instead of a file."""
    content = _content(cluster, "certificate-authority")
    return cluster if content is None else {**cluster, "certificate-authority-data": base64.b64encode(content).decode()}


def _content(settings: Settings, key: str) -> bytes | None:
    """Return the content of ``KEY-data`` (base64), or of the file in ``KEY``; None without both."""
    data, path = _text(settings, f"{key}-data"), _text(settings, key)
    if not data and not path:
        return None
    try:
        return base64.b64decode(data, validate=False) if data else Path(path).read_bytes()
    except binascii.Error as error:
        raise CredentialsError(f"{key}-data of the kubeconfig: {error}; expected base64") from None
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{key} of the kubeconfig: {path}: {_words(error)}") from None


def _verification(configuration: Any, cluster: Settings) -> None:
    authority = _content(cluster, "certificate-authority")
    if cluster.get("insecure-skip-tls-verify"):
        if authority is not None:
            raise CredentialsError("insecure-skip-tls-verify and certificate-authority contradict each other; expected one of them")
        configuration.verify_ssl = False
    elif authority is not None:
        configuration.ca_cert_data = authority.decode(errors="replace")


def _authorization(user: Settings) -> str:
    if path := _text(user, "tokenFile"):
        try:
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise CredentialsError(f"tokenFile of the kubeconfig: {path}: {_words(error)}") from None
    else:
        token = _text(user, "token").strip()
    if token:
        if not token.isprintable():
            raise CredentialsError("the token contains control characters")
        return f"Bearer {token}"
    name, password = _text(user, "username"), _text(user, "password")
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}" if name or password else ""


def _certificate(context: ssl.SSLContext, user: Settings) -> None:
    certificate, key = _content(user, "client-certificate"), _content(user, "client-key")
    if certificate is None and key is None:
        return
    if certificate is None or key is None:
        raise CredentialsError("the user of the kubeconfig has only one of client-certificate and client-key, expected both")
    with _files(certificate, key) as (first, second):
        try:
            context.load_cert_chain(first, second, password="")  # otherwise it would prompt at the terminal
        except (OSError, ValueError) as error:
            raise CredentialsError(f"client-certificate and client-key: {_words(error)}; expected a pair in PEM without password") from None


@contextmanager
def _files(*contents: bytes) -> Iterator[list[str]]:
    """Yield the paths of temporary files with these contents, which only this user may read.

    The files exist while the library loads them.
    """
    with TemporaryDirectory(prefix="kubestow-") as folder:
        paths = [Path(folder) / str(index) for index in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.touch(0o600)
            path.write_bytes(content)
        yield [str(path) for path in paths]


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return str(error.reason or error).replace("_", " ").lower()
    return str(getattr(error, "strerror", None) or error)
