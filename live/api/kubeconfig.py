"""Selection of API server and user from kubeconfig files, in the same way as kubectl."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from kubestow.models.snapshot.snapshot import InputError

#: Default path of kubectl.
HOME: Final = "~/.kube/config"
#: Fields with paths relative to the kubeconfig. A command is a path only if it contains a slash.
_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
#: Number of names that messages list.
_MAX_LISTED: Final = 5
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Settings = dict[str, Any]


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context | None = None


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: Settings | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: Settings | None = None


class _KubeconfigFile(msgspec.Struct):
    current: str | None = msgspec.field(default=None, name="current-context")
    contexts: list[_NamedContext] | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None


@dataclass(frozen=True)
class ApiTarget:
    """An API server and a user.

    Attributes:
        context: Name of the context; empty in a pod of the cluster.
        cluster: The kubeconfig's settings of the cluster, with absolute paths.
        user: The kubeconfig's settings of the user, with absolute paths.
    """

    context: str
    cluster: Settings = field(default_factory=dict)
    user: Settings = field(default_factory=dict)


def resolve(kubeconfig: str | None, context: str | None) -> ApiTarget | None:
    """Return the target of a context in the given file, else in those of ``KUBECONFIG``, else in ``~/.kube/config``.

    Returns:
        The target; None if there is no kubeconfig.

    Raises:
        InputError: an unreadable or invalid file, an unknown name, or no context.
    """
    config = _merged(kubeconfig)
    if config is None:
        if context is None:
            return None
        raise InputError([f"context {context}: there is no kubeconfig; expected one in KUBECONFIG or {HOME}"])
    name = context if context is not None else config.current
    if not name:
        raise InputError([f"{config.where}: no current-context; expected one, or --context with {_names(config.contexts)}"])
    if name not in config.contexts:
        raise InputError([f"{config.where}: no context {name!r}; expected {_names(config.contexts)}"])
    chosen = config.contexts[name]
    if chosen.cluster not in config.clusters:
        raise InputError([f"{config.where}: context {name!r}: no cluster {chosen.cluster!r}; expected {_names(config.clusters)}"])
    if chosen.user and chosen.user not in config.users:
        raise InputError([f"{config.where}: context {name!r}: no user {chosen.user!r}; expected {_names(config.users)}"])
    return ApiTarget(name, config.clusters[chosen.cluster], config.users.get(chosen.user, {}))


def contexts(kubeconfig: str | None) -> list[str]:
    """Return the names of all contexts in the same files.

    Raises:
        InputError: an unreadable or invalid file.
    """
    config = _merged(kubeconfig)
    return list(config.contexts) if config is not None else []


@dataclass
class _Config:
    """Files merged as by kubectl: the first entry of a name wins."""

    where: str
    current: str = ""
    contexts: dict[str, _Context] = field(default_factory=dict)
    clusters: dict[str, Settings] = field(default_factory=dict)
    users: dict[str, Settings] = field(default_factory=dict)

    def add(self, path: Path, found: _KubeconfigFile) -> None:
        self.current = self.current or found.current or ""
        for context in found.contexts or ():
            self.contexts.setdefault(context.name, context.context or _Context())
        for cluster in found.clusters or ():
            self.clusters.setdefault(cluster.name, _absolute(cluster.cluster or {}, path.parent))
        for user in found.users or ():
            self.users.setdefault(user.name, _absolute(user.user or {}, path.parent))


def _merged(kubeconfig: str | None) -> _Config | None:
    """Merge the files. A file named by an option must exist; files of a list may be missing."""
    paths = list(_paths(kubeconfig))
    result = _Config(", ".join(map(str, paths)))
    read = 0
    for path in paths:
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            if kubeconfig is not None:
                raise InputError([f"{path}: no such file; expected a kubeconfig"]) from None
            continue
        except (OSError, ValueError) as error:
            raise InputError([f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"]) from None
        if text.strip():
            result.add(path.absolute(), _decoded(text, path))
            read += 1
    return result if read or kubeconfig is not None else None


def _paths(kubeconfig: str | None) -> Iterator[Path]:
    if kubeconfig is not None:
        yield Path(kubeconfig)
        return
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    yield from map(Path, dict.fromkeys(named)) if named else (Path(HOME).expanduser(),)


def _decoded(text: bytes, path: Path) -> _KubeconfigFile:
    try:
        return msgspec.convert(yaml.load(text, Loader=_LOADER) or {}, _KubeconfigFile)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # msgspec raises ValueErrors that name the field
        problem = " ".join(str(error).split())[:300]
        raise InputError([f"{path}: not a kubeconfig: {problem}"]) from None


def _absolute(settings: Settings, folder: Path) -> Settings:
    found = dict(settings)
    for key in _FILES:
        if isinstance(found.get(key), str) and found[key]:
            found[key] = str(folder / found[key])
    plugin = found.get("exec")
    if isinstance(plugin, dict) and isinstance(plugin.get("command"), str) and os.sep in plugin["command"]:
        found["exec"] = {**plugin, "command": str(folder / plugin["command"])}
    return found


def _names(known: dict[str, Any]) -> str:
    names: Sequence[str] = list(known)
    if not names:
        return "one, and the kubeconfig has none"
    more = len(names) - _MAX_LISTED
    return " or ".join(map(repr, names[:_MAX_LISTED])) + (f" or {more} more" if more > 0 else "")
