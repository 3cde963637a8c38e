"""A uniform view of every kind of workload, and their names on the command line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubestow.models.kube import defaults, kinds, objects, workload_objects
from kubestow.models.kube.lenient_decode import near_keys, shorten
from kubestow.models.kube.selectors import LabelRequirement, Selector, canonical
from kubestow.models.snapshot.snapshot import InputError, Snapshot

#: kubectl's short names of kinds, in addition to names and plurals.
_SHORT_NAMES: Final = {
    "po": "Pod",
    "deploy": "Deployment",
    "rs": "ReplicaSet",
    "sts": "StatefulSet",
    "ds": "DaemonSet",
    "cj": "CronJob",
    "rc": "ReplicationController",
}
_KINDS: Final = {
    **_SHORT_NAMES,
    **{kind.lower(): kind for kind in ("Pod", *kinds.WORKLOADS)},
    **{f"{kind.lower()}s": kind for kind in ("Pod", *kinds.WORKLOADS)},
}
#: The version in a name such as ``deployments.v1.apps``.
_VERSION: Final = re.compile(r"v\d+((alpha|beta)\d+)?")
_JOB_NAME: Final = "batch.kubernetes.io/job-name"


@dataclass(frozen=True)
class WorkloadView:
    """A workload object with its pod template at the field ``path``."""

    kind: str
    obj: Any
    path: str
    template: workload_objects.PodTemplateSpec

    @property
    def namespace(self) -> str:
        return self.obj.metadata.namespace or "default"

    @property
    def name(self) -> str:
        return self.obj.metadata.name or ""

    @property
    def ref(self) -> str:
        """``Kind namespace/name``, the identity of a workload in documents and messages."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def spec(self) -> objects.PodSpec:
        return self.template.spec or objects.PodSpec()

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the template."""
        return dict((self.template.metadata.labels if self.template.metadata else None) or {})

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the template."""
        return dict((self.template.metadata.annotations if self.template.metadata else None) or {})

    @property
    def job(self) -> workload_objects.JobSpec | None:
        """The spec of a Job, or of the Jobs of a CronJob."""
        # self.obj is Any: the kind decides which Struct it is
        if self.kind == "Job":
            return self.obj.spec  # type: ignore[no-any-return]
        if self.kind == "CronJob":
            return self.obj.spec.jobTemplate.spec  # type: ignore[no-any-return]
        return None


def view(obj: Any) -> WorkloadView | None:
    """Return the view of a workload object; None if its pod template or pod spec is missing."""
    template = kinds.pod_template(obj)
    return None if template is None or template[1].spec is None else WorkloadView(kinds.name_of(obj), obj, *template)


def labelled(obj: Any) -> Any:
    """Return a workload whose template has no labels with those of its selector; other workloads unchanged.

    For example, a kustomization adds common labels only when it is built.
    """
    workload, adopts = view(obj), getattr(getattr(obj, "spec", None), "selector", None)
    if workload is None or workload.labels or adopts is None or workload.job is not None:
        return obj
    labels = adopts if isinstance(adopts, dict) else adopts.matchLabels
    change = msgspec.structs.replace
    template = change(
        workload.template, metadata=change(workload.template.metadata or objects.ObjectMeta(), labels=dict(labels or {}) or None)
    )
    return change(obj, spec=change(obj.spec, template=template))


def listed(snapshot: Snapshot) -> Iterator[Any]:
    """Yield all workload objects, kind by kind."""
    for kind in dict.fromkeys((*kinds.WORKLOADS, *snapshot.workloads)):
        yield from snapshot.workloads.get(kind, ())


def selector(obj: Any) -> Selector | None:
    """Return the selector by which a workload adopts pods without a controller; None if it adopts none."""
    spec = getattr(obj, "spec", None)
    if spec is None or isinstance(obj, workload_objects.CronJob | workload_objects.PodTemplate):
        return None
    stated = spec.selector
    if isinstance(stated, dict):
        stated = objects.LabelSelector(matchLabels=stated)
    if isinstance(obj, workload_objects.Job) and stated is None:
        return (LabelRequirement(_JOB_NAME, "In", (obj.metadata.name or "",)),)
    return canonical(stated) or None


def kind_named(word: str) -> str | None:
    """Return the kind that kubectl knows by this word, Pod or a kind of workloads: ``deploy``, ``Deployments``, ``deployments.v1.apps``.

    None for any other word, and for kinds of another API group, such as ``jobs.batch.volcano.sh``.
    """
    plain, _, suffix = word.lower().partition(".")
    kind = _KINDS.get(plain)
    first, _, remainder = suffix.partition(".")
    group = remainder if _VERSION.fullmatch(first) else suffix
    return kind if kind is not None and (not suffix or group in kinds.KINDS[kind].groups) else None


def _workload_kind(word: str) -> str | None:
    kind = kind_named(word)
    return None if kind == "Pod" else kind


def split(text: str) -> tuple[str | None, str]:
    """Return the kind that ``[KIND/][NAMESPACE/]NAME`` begins with (None: no kind), and the remainder."""
    head, _, name = text.partition("/")
    kind = _workload_kind(head) if name else None
    return (None, text) if kind is None else (kind, name)


def find(snapshots: Collection[Snapshot], text: str) -> tuple[str, str, str]:
    """Return kind, namespace and name of the workload that ``[KIND/][NAMESPACE/]NAME`` refers to.

    Objects that another one controls, such as ReplicaSets of a Deployment, match only with their kind.

    Raises:
        InputError: No such workload, or several.
    """
    *qualifiers, name = text.split("/")
    custom = {kind.lower(): kind for snapshot in snapshots for kind in snapshot.workloads}
    kind = _workload_kind(qualifiers[0]) or custom.get(qualifiers[0].lower()) if qualifiers else None
    if kind is not None:
        qualifiers = qualifiers[1:]
    if len(qualifiers) > 1 or not name:
        raise InputError([f"workload {shorten(text)}: expected [KIND/][NAMESPACE/]NAME, the kind one of {', '.join(kinds.WORKLOADS)}"])
    matches = {
        (kinds.name_of(obj), obj.metadata.namespace or "default", obj.metadata.name or "")
        for snapshot in snapshots
        for obj in listed(snapshot)
        if obj.metadata.name == name and (kind is not None or objects.controller_of(obj) is None)
    }
    matches = {(k, s, n) for k, s, n in matches if kind in (None, k) and (not qualifiers or s == qualifiers[0])}
    if not matches:
        raise InputError([f"workload {shorten(text)}: no such workload in the input{near_keys(text, _keys(snapshots))}"])
    if len(matches) > 1:
        several = ", ".join(f"{k}/{s}/{n}" for k, s, n in sorted(matches))
        raise InputError([f"workload {shorten(text)}: is ambiguous, expected one of {several}"])
    return matches.pop()


def _keys(snapshots: Iterable[Snapshot]) -> Iterator[str]:
    """Yield the workloads that no other object controls, as KIND/NAMESPACE/NAME."""
    for obj in (obj for snapshot in snapshots for obj in listed(snapshot)):
        if objects.controller_of(obj) is None:
            yield f"{type(obj).__name__}/{obj.metadata.namespace or 'default'}/{obj.metadata.name}"


def priority_of(spec: objects.PodSpec, snapshot: Snapshot) -> int | None:
    """Return the priority of a pod; None if unknown.

    If the input lacks its class, this is the priority of any pod of the class.
    """
    stated = defaults.priority(spec, snapshot.priority_classes)
    if stated is None:
        same = (pod.spec.priority for pod in snapshot.pods if pod.spec.priorityClassName == spec.priorityClassName)
        stated = next((priority for priority in same if priority is not None), None)
    return stated
