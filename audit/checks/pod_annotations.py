"""Container-affinity and gang annotations that are invalid or probably not intended.

``solve`` rejects an invalid annotation in manifests. Pods in the cluster are placed without it, and this check
reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.execution import execution_grace
from kubestow.models.gangs import gangs
from kubestow.models.gangs.declarations import Groups
from kubestow.models.gangs.markers import members
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.objects import Pod, is_terminal, is_terminating, pod_key
from kubestow.models.kube.quantity import QuantityError
from kubestow.models.numa.annotations import TAGS, has_hints
from kubestow.models.numa.container_affinity import AffinityEntry, AnnotationError, parse_annotations, reaches, views
from kubestow.models.numa.container_expressions import ContainerView, Expression
from kubestow.models.snapshot.affinity_keys import AFFINITY, ANTI_AFFINITY, PREFIXES, meant
from kubestow.models.snapshot.scope import select
from kubestow.models.snapshot.snapshot import InputError

_NAMES: Final = tuple((prefix + AFFINITY, prefix + ANTI_AFFINITY) for prefix in PREFIXES)

UNREADABLE: Final = Code(
    "KS701", "container-affinity-unreadable", "error", "A container-affinity annotation is invalid",
    "Nodes ignore all container affinity of the pod, and solve places the pod without it. In manifests, solve rejects it.",
    "Correct the annotation as the message says. docs/preferences.md describes the two valid forms.",
)  # fmt: skip
UNKNOWN: Final = Code(
    "KS702", "container-affinity-unknown-container", "warning", "Container affinity names a container that the pod does not have",
    "The entry has no effect. The name may be misspelt, an init container that has already ended, or a container of another pod.",
    "Name an app container or sidecar of the pod. For containers of other pods, write an entry with a scope.",
)  # fmt: skip
WEIGHT: Final = Code(
    "KS703", "container-affinity-weight", "warning", "A weight of container affinity has an unexpected meaning",
    "0 counts as 1, weights above 1000 are reduced to 1000, and a negative weight in anti-affinity attracts.",
    "Use a weight from 1 to 1000. To attract containers, use the affinity annotation.",
)  # fmt: skip
ODD: Final = Code(
    "KS704", "container-affinity-constant", "warning",
    "An expression of container affinity has values without effect, or matches every container or none",
    "The entry applies to all containers or to none, regardless of its values.",
    "Give the operator exactly the values that it needs. Close the brackets of patterns, or write \\[ for a literal bracket.",
)  # fmt: skip
TWICE: Final = Code(
    "KS705", "container-affinity-two-names", "warning", "Container affinity is set under both names of the annotation",
    f"Only {PREFIXES[0]}* is read; the other annotation is ignored.",
    f"Move all entries to {PREFIXES[0]}{AFFINITY} and {PREFIXES[0]}{ANTI_AFFINITY}.",
)  # fmt: skip
TAG: Final = Code(
    "KS706", "container-tags-unreadable", "error", "A container-tags annotation is invalid",
    "The container has no tags, so expressions over tags do not match it. In manifests, solve rejects it.",
    "Write key=value,key=value, with each key once.",
)  # fmt: skip
DEAD: Final = Code(
    "KS707", "container-affinity-matches-nothing", "warning", "An entry of container affinity matches no container",
    "It has no effect. Probably a name or label is wrong, or the scope is missing.",
    "Compare scope and match with the intended containers. Without a scope, only containers of the same pod can match.",
)  # fmt: skip
GRACE: Final = Code(
    "KS708", "execution-grace-unreadable", "warning", "An execution-grace annotation is invalid",
    "The default grace applies instead, so rules that must hold during execution may count as broken too early or too late.",
    "Write whole seconds, such as \"300\".",
)  # fmt: skip
MISSPELT: Final = Code(
    "KS709", "container-affinity-unknown-key", "error", "No policy reads the key of a container-affinity annotation",
    "The annotation has no effect: nodes and solve ignore it. In manifests, solve rejects it.",
    "Use the key that the message suggests.",
)  # fmt: skip
GANG: Final = Code(
    "KS711", "gang-unreadable", "error", "A gang annotation is invalid, or contradicts that of another member",
    "Its pending pods are placed one by one, as if no gang were declared.",
    "Correct the annotation as the message says, and use the same value on all members.",
)  # fmt: skip
SHORT: Final = Code(
    "KS712", "gang-short-of-members", "warning", "A gang needs more members than exist",
    "None of its pods is placed until the missing members have been created.",
    "Lower the minimum, or find out why members are missing.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (UNREADABLE, UNKNOWN, WEIGHT, ODD, TWICE, TAG, DEAD, GRACE, MISSPELT, GANG, SHORT)


def check(view: ClusterView) -> Iterator[Finding]:
    holders = list(_holders(view))
    containers = _Containers(view)
    for holder in holders:
        yield from _container_hints(view, holder, containers)
    yield from _graces(view)
    yield from _gangs(view)


def _graces(view: ClusterView) -> Iterator[Finding]:
    """Yield findings about templates, and about pods whose annotation differs from their template's."""
    for subject in view.subjects:
        own = execution_grace.unreadable(subject.pod)
        if own is not None:
            path = f"{subject.path.removesuffix('spec')}{own}"
            yield GRACE.found(subject.name, path, pods=view.keys(subject.pods))
        for i in subject.pods:
            why = execution_grace.unreadable(view.snapshot.pods[i])
            if why is not None and why != own:
                yield GRACE.found(f"Pod {pod_key(view.snapshot.pods[i])}", why, pods=view.keys([i]))


@dataclass
class _Holder:
    """An object with annotations.

    Attributes:
        name: Name of the object in findings.
        path: Field of its annotations.
        pod: A pod with the annotations.
        pods: Keys of the pods with equal annotations.
    """

    name: str
    path: str
    pod: Pod
    pods: list[str] = field(default_factory=list)


def _holders(view: ClusterView) -> Iterator[_Holder]:
    """Yield templates with container annotations, and pods whose annotations differ from their template's, with equal pods grouped."""
    seen: dict[tuple[str, bytes], _Holder] = {}
    for subject in view.subjects:
        if subject.workload is not None and _concerned(subject.pod):
            path = f"{subject.path.removesuffix('.spec')}.metadata.annotations"
            seen[subject.name, _content(subject.pod)] = _Holder(subject.name, path, subject.pod)
    for i, pod in enumerate(view.snapshot.pods):
        if pod.metadata.annotations and _concerned(pod) and not is_terminal(pod) and not is_terminating(pod):
            of = view.subject_of.get(i)
            key = of.name if of is not None else "", _content(pod)
            if key not in seen:
                seen[key] = _Holder(f"Pod {pod_key(pod)}", "metadata.annotations", pod)
            seen[key].pods.append(pod_key(pod))
    yield from seen.values()


def _concerned(pod: Pod) -> bool:
    return has_hints(pod) or any(key.startswith(TAGS) or meant(key) is not None for key in pod.metadata.annotations or ())


def _content(pod: Pod) -> bytes:
    annotations = {k: v for k, v in (pod.metadata.annotations or {}).items() if k.startswith((*PREFIXES, TAGS)) or meant(k) is not None}
    return _encoder.encode((annotations, [c.name for c in (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))]))


_encoder: Final = msgspec.json.Encoder(order="deterministic")


# --- container affinity -------------------------------------------------------------------------------------------------


def _container_hints(view: ClusterView, holder: _Holder, containers: _Containers) -> Iterator[Finding]:
    annotations = holder.pod.metadata.annotations or {}
    spec = holder.pod.spec
    running = [c.name or "" for c in (*(spec.containers or ()), *(c for c in spec.initContainers or () if c.restartPolicy == "Always"))]
    for key in annotations:
        near = meant(key)
        if near is not None:
            text = f"no policy reads the key {shorten(key)}; did you mean {near}?"
            yield MISSPELT.found(holder.name, text, field=f"{holder.path}[{key}]", pods=holder.pods)
    present = [names for names in _NAMES if any(name in annotations for name in names)]
    if len(present) > 1:
        lost = [name for name in present[1] if name in annotations]
        text = f"{some(lost)} {'are' if len(lost) > 1 else 'is'} ignored next to {PREFIXES[0]}*"
        yield TWICE.found(holder.name, text, field=f"{holder.path}[{lost[0]}]", pods=holder.pods)
    readable: list[tuple[str, AffinityEntry]] = []
    broken = False
    for name in present[0] if present else ():
        if name not in annotations:
            continue
        where, at = f"annotation {name}: ", f"{holder.path}[{name}]"
        try:
            hints = parse_annotations(
                {name: annotations[name]}, where="", containers=running, symmetric=view.policy.shorthand == "symmetric"
            )
        except AnnotationError as error:
            broken = True
            yield UNREADABLE.found(holder.name, str(error).removeprefix(": ").removeprefix(where), field=at, pods=holder.pods)
            continue
        texts = [warning.removeprefix(": ").removeprefix(where) for warning in hints.warnings]
        for text in texts:
            yield _kind(text).found(holder.name, text, field=at, pods=holder.pods)
        unknown_container = any(_kind(text) is UNKNOWN for text in texts)
        readable += [(at, entry) for entry in hints.entries if entry.scope is not None or not unknown_container]
    try:
        own = views(holder.pod)
    except AnnotationError as error:
        text = str(error).partition(": ")[2]
        name = text.removeprefix("annotation ").partition(": ")[0]
        yield TAG.found(holder.name, text.partition(": ")[2], field=f"{holder.path}[{name}]", pods=holder.pods)
        return
    except QuantityError:
        return  # input validation refuses these
    if broken:
        return
    for at, entry in dict.fromkeys(readable):
        if not containers.any(entry, own):
            shown = f"in its scope {_words(entry.scope)}, " if entry.scope is not None else "in its own pod "
            text = f"{entry.container}: no other container {shown}matches {_words(entry.match)}"
            yield DEAD.found(holder.name, text, field=at, pods=holder.pods)


def _kind(text: str) -> Code:
    if text.endswith("is no app container or sidecar"):
        return UNKNOWN
    weight = ("0 counts as the default, 1", "pulls the containers closer", "is used")
    return WEIGHT if text.endswith(weight) else ODD


def _words(expression: Expression | None) -> str:
    assert expression is not None
    values = f" [{', '.join(expression.values)}]" if expression.values else ""
    return f"{expression.key} {expression.operator}{values}".strip()


class _Containers:
    """All containers of running and pending pods, and those that templates without pods will create."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._seen: list[ContainerView] | None = None
        self._matching: dict[tuple[Expression | None, Expression], list[ContainerView]] = {}

    def any(self, entry: AffinityEntry, own: list[ContainerView]) -> bool:
        """Return True if an entry matches a container other than its own. ``own`` holds the containers of its pod."""
        mine = next(each for each in own if each.container == entry.container)
        if any(reaches(entry, mine, other) for other in own):
            return True
        if entry.scope is None:
            return False
        key = entry.scope, entry.match
        if key not in self._matching:
            found = (each for each in self._all() if entry.scope.holds(each) and entry.match.holds(each))
            self._matching[key] = list(islice(found, 2))  # at least one of the two is another container
        return any(reaches(entry, mine, other) for other in self._matching[key])

    def _all(self) -> list[ContainerView]:
        if self._seen is None:
            pods = [pod for pod in self._view.snapshot.pods if not is_terminal(pod)]
            for subject in self._view.subjects:
                if not subject.pods:  # replicas are neighbours of each other
                    pods += [_named(subject.pod, f"{subject.pod.metadata.name}{k or ''}") for k in range(min(2, subject.wanted))]
            self._seen = [each for pod in pods for each in _views(pod)]
        return self._seen


def _named(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))


def _views(pod: Pod) -> list[ContainerView]:
    try:
        return views(pod)
    except (AnnotationError, QuantityError):
        return []


# --- gangs --------------------------------------------------------------------------------------------------------------


def _gangs(view: ClusterView) -> Iterator[Finding]:
    pods = view.snapshot.pods
    there = [i for i, pod in enumerate(pods) if not is_terminal(pod) and not is_terminating(pod)]
    planned = [subject for subject in view.subjects if subject.workload is not None and not subject.pods]
    every = [*pods, *(subject.pod for subject in planned)]
    holders = {pod_key(subject.pod): (subject.name, f"{subject.path.removesuffix('.spec')}.") for subject in planned}
    groups = Groups(view.snapshot, view.policy.networkTiers)
    for named, found in members(every, [*there, *range(len(pods), len(every))]).items():
        keys = {pod_key(every[i]): view.subject_of.get(i) for i in found}
        for problem in dict.fromkeys(groups.declared(named, [every[i] for i in found]).problems):
            pod, _, detail = problem.removeprefix("Pod ").partition(": ")
            at, _, text = detail.partition(": ")
            subject = keys.get(pod)
            own = (f"Pod {pod}", "") if subject is None else (subject.name, subject.path.rpartition("spec")[0])
            owner, prefix = holders.get(pod, own)
            yield GANG.found(owner, text, field=prefix + at, pods=[] if pod in holders else [pod])
    scope = select(view.snapshot)
    try:
        waiting = gangs.find(view.snapshot, scope, tiers=view.policy.networkTiers)
    except InputError:
        return  # reported above
    gated = {named.name: len(found) for named, found in members(pods, scope.gated).items()}
    for gang in waiting:
        lacking = gang.needed - len(gang.pods) - gated.get(gang.name.partition("@")[0], 0)
        if lacking > 0:
            text = f"{len(gang.pods)} pods pending and {len(gang.bound)} running; {lacking} more needed ({gang.source})"
            yield SHORT.found(f"Gang {gang.name}", text, pods=view.keys(gang.pods))
