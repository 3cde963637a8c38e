"""Candidates for the value of an option, by its metavar."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from kubestow.commands.naming.names import CompletionNames

#: With more candidates than this, only their part up to the next ``/`` is offered.
_MAX_WHOLE_CANDIDATES: Final = 200
#: Maximum number of candidates; longer lists are useless.
_MAX_CANDIDATES: Final = 5000

#: Kinds of pods and workloads, as they are typed to kubectl most often.
_KUBECTL_KINDS: Final = ("pod", "deploy", "sts", "ds", "rs", "rc", "job", "cj")
#: Context names that need no quotes.
_SAFE: Final = re.compile(r"[A-Za-z0-9_.:/@+-]+")

#: Pairs of a word and its description.
Candidates = Iterable[tuple[str, str]]


@dataclass
class _CompletionLine:
    """The line before the word to complete."""

    context: click.Context

    @cached_property
    def names(self) -> CompletionNames:
        """Names in the snapshot and the manifests."""
        from kubestow.commands.naming.names import read

        given = self.context.params
        # If the last option lacks its value, click leaves arguments unassigned.
        return read([*(given.get("snapshots") or self.context.args), *(given.get("manifests") or ())])

    def file(self, name: str) -> str | None:
        """Return the file given by an option; None without it."""
        found = self.context.params.get(name)
        return found if isinstance(found, str) else None


class Value(click.types.StringParamType):
    """A string type whose metavar determines the candidates."""

    def __init__(self, metavar: str) -> None:
        self._candidates = BY_METAVAR[metavar]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        found = _few(self._candidates(_CompletionLine(ctx), incomplete), incomplete)
        items = [CompletionItem(value, help=text) for value, text in found]
        return items if isinstance(param, click.Option) else [*items, CompletionItem(incomplete, type="file")]


def _few(candidates: Candidates, word: str) -> list[tuple[str, str]]:
    """Return the candidates that start with the word. For many candidates, return only their part up to the next ``/``."""
    fitting = [(value, text) for value, text in candidates if value.startswith(word)]
    if len(fitting) > _MAX_WHOLE_CANDIDATES:
        folders = dict.fromkeys(value[: end + 1] if (end := value.find("/", len(word))) >= 0 else value for value, _ in fitting)
        if len(folders) < len(fitting):
            return [(value, "") for value in list(folders)[:_MAX_CANDIDATES]]
    return fitting[:_MAX_CANDIDATES]


def _plain(names: Iterable[str], text: str = "") -> Candidates:
    return ((name, text) for name in names)


def _nodes(line: _CompletionLine, word: str) -> Candidates:
    return _plain(line.names.nodes)


def _pods(line: _CompletionLine, word: str) -> Candidates:
    return _plain(line.names.pods)


def _namespaces(line: _CompletionLine, word: str) -> Candidates:
    return _plain(line.names.namespaces)


def _workloads(line: _CompletionLine, word: str) -> Candidates:
    """Yield ``NAMESPACE/NAME``; after the first letter also ``KIND/NAMESPACE/NAME`` and unique plain names."""
    found = line.names.workloads
    for name, kinds in found.items():
        yield name, ", ".join(kinds)
    if word:
        for name, kinds in found.items():
            yield from ((f"{kind}/{name}", "") for kind in kinds)
        spaces: dict[str, list[str]] = {}
        for name in found:
            spaces.setdefault(name.rpartition("/")[2], []).append(name)
        yield from ((short, whole[0]) for short, whole in spaces.items() if len(whole) == 1)


def _named(line: _CompletionLine, word: str) -> Candidates:
    """Yield ``pod/NAME`` and the like. Names outside the namespace of -n, or ``default``, have theirs: ``pod/NAMESPACE/NAME``."""
    head, slash, _ = word.partition("/")
    if not slash:
        yield from _plain(f"{kind}/" for kind in _KUBECTL_KINDS if word)
        return
    from kubestow.models.workloads.view import kind_named

    kind = kind_named(head)
    here = line.context.params.get("namespace") or "default"
    found = line.names.pods if kind == "Pod" else [name for name, kinds in line.names.workloads.items() if kind in kinds]
    yield from _plain(f"{head}/{name.removeprefix(f'{here}/')}" for name in found if kind is not None)


def _scaled(line: _CompletionLine, word: str) -> Candidates:
    if "=" not in word:
        yield from ((f"{name}=", text) for name, text in _workloads(line, word))


def _rolling(line: _CompletionLine, word: str) -> Candidates:
    """Yield the workloads that can be rolled out, with their kind if the name is ambiguous."""
    for name, found in line.names.rolling():
        yield from ((name if len(found) == 1 else f"{kind}/{name}", "") for kind in found)


def _keys(line: _CompletionLine, word: str) -> Candidates:
    return _plain(line.names.label_keys())


def _labels(line: _CompletionLine, word: str) -> Candidates:
    """Return label keys; after ``=``, the values of the key."""
    if "=" in word:
        return _plain(sorted(line.names.labels))
    return _plain(f"{key}=" for key in line.names.label_keys())


def _selector(line: _CompletionLine, word: str) -> Candidates:
    """Complete the last requirement of a selector."""
    before, comma, last = word.rpartition(",")
    return ((f"{before}{comma}{value}", text) for value, text in _labels(line, last))


def _nodes_or_selector(line: _CompletionLine, word: str) -> Candidates:
    if not {"=", ","} & set(word):
        yield from _nodes(line, word)
    yield from _selector(line, word)


def _domain(*words: str) -> Callable[[_CompletionLine, str], Candidates]:
    """Return a completer for fixed words and label keys."""
    return lambda line, word: (*_plain(words), *_keys(line, word))


def _like(line: _CompletionLine, word: str) -> Candidates:
    """Complete ``N:LIKE_NODE`` after the user's number."""
    number, colon, _ = word.partition(":")
    return _plain([f"{number}:{name}" for name in line.names.nodes] if colon else [f"{number or 1}:"])


def _shapes(line: _CompletionLine, word: str) -> Candidates:
    """Complete ``N:SHAPE@ZONE`` from the catalogue."""
    number, colon, _ = word.partition(":")
    path = line.file("catalogue")
    if not colon:
        yield from _like(line, word)
    elif path is not None:
        from kubestow.models.catalogue.catalogue import read

        for name, shape in read(path).shapes.items():
            yield from ((f"{number}:{name}@{zone}", "") for zone in shape.zones)


def _listed(one: Callable[[_CompletionLine, str], Candidates]) -> Callable[[_CompletionLine, str], Candidates]:
    """Return a completer for comma-separated lists without duplicates."""

    def several(line: _CompletionLine, word: str) -> Candidates:
        before, comma, last = word.rpartition(",")
        chosen = set(before.split(","))
        return ((f"{before}{comma}{value}", text) for value, text in one(line, last) if value not in chosen)

    return several


def _codes(line: _CompletionLine, word: str) -> Candidates:
    from kubestow.audit.catalogue import CODES

    return ((code, found.title) for code, found in CODES.items())


def _contexts(line: _CompletionLine, word: str) -> Candidates:
    from kubestow.live.api.kubeconfig import contexts

    return _plain(name for name in contexts(line.file("kubeconfig")) if _SAFE.fullmatch(name))


def _stages(line: _CompletionLine, word: str) -> Candidates:
    stage, equals, _ = word.partition("=")
    return _plain(f"{stage}={key}" for key in line.names.label_keys()) if equals else _plain(("zones=", "clouds=", "locations="))


#: Completers by metavar. Other options take choices, files, numbers or free text.
BY_METAVAR: Final[Mapping[str, Callable[[_CompletionLine, str], Candidates]]] = {
    "CODE,...": _listed(_codes),
    "CONTEXT": _contexts,
    "KEY": _keys,
    "KEY=VALUE": _labels,
    "N:LIKE_NODE": _like,
    "N:SHAPE@ZONE": _shapes,
    "NAME=N": _scaled,
    "NAMESPACE": _namespaces,
    "NAME[=FILE]": _rolling,
    "NODE": _nodes,
    "NODE|SELECTOR": _nodes_or_selector,
    "NS,...": _listed(_namespaces),
    "NS/NAME": _pods,
    "SELECTOR": _selector,
    "SNAPSHOT... [TYPE/NAME]": _named,
    "STAGE=KEY": _stages,
    "WORKLOAD": _workloads,
    "node|zone|KEY": _domain("node", "zone"),
    "zone|KEY": _domain("zone"),
}
