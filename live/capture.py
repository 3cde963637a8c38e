"""Capture of a snapshot with kubectl: everything that placement reads, and nothing more by default.

Objects are read in pages of the API server's own JSON (``kubectl get --raw``). ``kubectl get -o json`` would collect a whole list first,
which takes 2.4 GB and half a minute for 10,000 pods of 11 kB. Pages stay compressed in memory until all are there, so that no partial
snapshot is written.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from kubestow.live.capture_kinds import Resource, groups_in, listed, served
from kubestow.live.capture_kubectl import Kubectl, KubectlError, RequestRefused
from kubestow.live.capture_proxy import KubectlProxy
from kubestow.live.redact import Keeper
from kubestow.models.kube.workload_objects import PodSet
from kubestow.models.snapshot.capture_info import Capture
from kubestow.models.snapshot.object_names import is_label
from kubestow.models.snapshot.snapshot import InputError

#: Objects per page, the default of kubectl.
PAGE_OBJECTS: Final = 500
#: Kinds that every snapshot needs. Any failure to read them, other than a missing permission, ends the capture.
_ESSENTIAL: Final = ("Pod", "Node")
_REFUSALS: Final = ("Forbidden", "NotFound", "MethodNotAllowed")

#: Maximum length of the recorded server version, in characters.
_MAX_VERSION_LENGTH: Final = 100

#: Bytes between the objects of a snapshot, and after the last one.
SEPARATOR: Final = b",\n"
CLOSING: Final = b"\n]}\n"

OnKind = Callable[[str, int], None]


@dataclass(frozen=True)
class CaptureOptions:
    """Options of a capture.

    Attributes:
        kubectl: The program to run.
        context: kubectl's context; None for its current one.
        kubeconfig: kubectl's configuration file; None for its default.
        namespaces: Namespaces to read; empty for all.
        redact: True to keep only the fields that placement reads.
        timeout: Seconds without output after which kubectl is killed.

    Raises:
        ValueError: an invalid namespace name, or a timeout that is not positive.
    """

    kubectl: str = "kubectl"
    context: str | None = None
    kubeconfig: str | None = None
    namespaces: tuple[str, ...] = ()
    redact: bool = True
    timeout: float = 60.0

    def __post_init__(self) -> None:
        for name in self.namespaces:
            if not is_label(name):
                raise ValueError(f"{name!r} is not a namespace name")
        object.__setattr__(self, "namespaces", tuple(dict.fromkeys(self.namespaces)))
        if not 0 < self.timeout < float("inf"):
            raise ValueError(f"{self.timeout:g} is not a positive number of seconds")

    def arguments(self) -> list[str]:
        """Return kubectl's options for the cluster, each as one word, so that names may contain anything."""
        given = (("--kubeconfig", self.kubeconfig), ("--context", self.context))
        return [f"{option}={value}" for option, value in given if value is not None]


@dataclass
class Captured:
    """The result of a capture.

    Attributes:
        counts: Number of objects by kind.
        problems: Kinds or objects that could not be read, one line each.
        notes: Other remarks.
        unasked: Parts of the cluster that were not requested or are unknown here, one line each.
        info: Metadata of the snapshot, including everything that is missing.
    """

    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    info: Capture = field(default_factory=Capture)
    _packed: list[list[bytes]] = field(default_factory=list)

    def parts(self) -> Iterator[bytes]:
        """Yield the snapshot piece by piece: a ``v1`` List in JSON with one object per line."""
        lead = opening(self.info)
        for blocks in self._packed:
            yield lead
            unpacker = zlib.decompressobj()
            yield from map(unpacker.decompress, blocks)
            yield unpacker.flush()
            lead = SEPARATOR
        yield CLOSING if self._packed else lead + b"]}\n"


def opening(info: Capture) -> bytes:
    """Return the bytes before the first object of a snapshot."""
    about = json.dumps({"annotations": info.annotations()}, ensure_ascii=False).encode("utf-8", "replace")
    return b'{"apiVersion":"v1","kind":"List","metadata":' + about + b',"items":[\n'


def sentences(*problems: list[str]) -> tuple[str, ...]:
    """Return problems as the sentences that a snapshot records about missing parts."""
    return tuple(" ".join(line.removeprefix("left out: ").split()) for lines in problems for line in lines)


def now() -> str:
    """Return the current UTC time in RFC 3339 format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def capture(options: CaptureOptions, *, on_kind: OnKind | None = None) -> Captured:
    """Read a cluster. After each page, call ``on_kind(name, count)`` with the number of objects of a resource so far.

    The result names kinds that the server does not have or refuses. ^C may end the capture at any time.

    Raises:
        InputError: kubectl is missing, fails or does not answer; a namespace does not exist; or nothing may be read.
    """
    return _Capture(options, on_kind or (lambda name, count: None)).run()


class _Capture:
    def __init__(self, options: CaptureOptions, on_kind: OnKind) -> None:
        self._options = options
        self._on_kind = on_kind
        self._kubectl = Kubectl(options.kubectl, options.arguments(), options.timeout)
        self._proxy = KubectlProxy(self._kubectl)
        self._result = Captured()
        self._asked = 0
        self._refused: list[str] = []

    def run(self) -> Captured:
        result, began = self._result, now()
        try:
            with self._proxy:
                for resource in self._resources():
                    self._read(resource)
                cluster, version = self._cluster(), self._version()
        except KubectlError as error:
            raise InputError([str(error)]) from None
        if self._asked == len(self._refused):
            raise InputError([f"nothing may be read: {self._refused[0]}"])
        if self._options.namespaces:
            names = ", ".join(self._options.namespaces)
            result.unasked.append(
                f"objects in other namespaces than {names}: their pods use capacity, so the nodes look emptier than they are"
            )
        result.info = Capture(cluster, began, version, sentences(result.problems, result.unasked))
        result.notes += [f"kubectl: {line}" for line in self._kubectl.heard]
        return result

    def _cluster(self) -> str:
        """Return the name of the context; empty if there is none."""
        try:
            return self._options.context or self._kubectl.context()
        except KubectlError:
            return ""

    def _version(self) -> str:
        """Return the server's version; empty if unknown, because everything else has been read by now."""
        try:
            found = json.loads(self._proxy.get("/version"))
        except (RequestRefused, KubectlError, ValueError):
            return ""
        version = found.get("gitVersion") if isinstance(found, dict) else None
        return version[:_MAX_VERSION_LENGTH] if isinstance(version, str) else ""

    def _resources(self) -> list[Resource]:
        """Return the resources to read.

        Raises:
            KubectlError: kubectl failed, or the server has none of the resources.
        """
        table, complaint = self._kubectl.resources()
        found = served(listed(table))
        if not found.resources:
            first = table.strip().partition("\n")[0][:60]
            raise KubectlError(complaint or f"kubectl api-resources: expected a table of API resources, got {first!r}")
        self._result.problems += [f"{name}: the server does not list it" for name in found.lacking]
        if complaint:
            into = self._result.problems if any(groups_in(complaint)) else self._result.notes
            into.append(f"kubectl api-resources: {complaint}")
        if found.absent:
            self._result.notes.append("not on this server: " + ", ".join(found.absent))
        return found.resources

    def _read(self, resource: Resource) -> None:
        """Read all objects of a kind; if namespaces are given, namespace by namespace."""
        apart = resource.namespaced or resource.kind.name == "Namespace"
        for namespace in (apart and self._options.namespaces) or (None,):
            self._list(resource, namespace)

    def _list(self, resource: Resource, namespace: str | None) -> None:
        self._asked += 1
        try:
            try:
                self._pages(resource, namespace, PAGE_OBJECTS)
            except RequestRefused as refused:
                # The first page has expired on the server. A list in one piece cannot expire.
                if refused.reason not in ("Expired", "Gone"):
                    raise
                self._pages(resource, namespace, 0)
        except RequestRefused as refused:
            self._not_read(resource, namespace, refused)

    def _not_read(self, resource: Resource, namespace: str | None, refused: RequestRefused) -> None:
        if refused.reason == "NotFound" and resource.kind.name == "Namespace":
            raise KubectlError(f"namespace {namespace} does not exist: {refused}")
        if refused.reason not in _REFUSALS and resource.kind.name in _ESSENTIAL:
            raise KubectlError(f"{resource.label}: {refused}")
        where = f" of namespace {namespace}" if namespace is not None else ""
        ask = not self._options.namespaces and resource.kind.name == "Pod" and refused.reason == "Forbidden"
        hint = " (kubestow capture -n NAMESPACE reads single namespaces)" if ask else ""
        self._refused.append(f"{resource.label}{where}: {refused}{hint}")
        self._result.problems.append(f"left out: {self._refused[-1]}")

    def _pages(self, resource: Resource, namespace: str | None, size: int) -> None:
        """Read and keep all pages of a list. Nothing is kept unless the last page arrives."""
        keeper = Keeper(resource.kind, resource.api_version, redact=self._options.redact)
        packer, blocks = zlib.compressobj(1), []
        count, token = 0, ""
        single = resource.kind.name == "Namespace" and namespace is not None
        url = f"{resource.url()}/{namespace}" if single else resource.url(namespace)
        while True:
            query = urlencode({k: v for k, v in (("limit", size), ("continue", token)) if v})
            data = self._proxy.get(f"{url}?{query}" if query and not single else url)
            try:
                found, following = (keeper.single(data), "") if single else keeper.page(data)
            except ValueError as error:
                raise KubectlError(f"kubectl get --raw {url}: {error}") from None
            for each in found:
                blocks.append(packer.compress(SEPARATOR + each if count else each))
                count += 1
            self._on_kind(resource.label, count)
            if following and following == token:
                raise KubectlError(f"kubectl get --raw {url}: the list has no end: two pages have the same continue token")
            token = following
            if not token:
                break
        blocks.append(packer.flush())
        name = resource.label if resource.kind.type is PodSet else resource.kind.name
        if count:
            self._result._packed.append([block for block in blocks if block])
            self._result.counts[name] = self._result.counts.get(name, 0) + count
        self._result.problems += keeper.problems
        self._result.unasked += keeper.not_understood.sentences()
