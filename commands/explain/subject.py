"""The pod or workload that the command line names, looked up in the snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kubestow.commands.common.context_namespace import context_namespace
from kubestow.commands.common.exit_codes import fail
from kubestow.commands.common.options import Streams
from kubestow.commands.explain import ExplainSubject
from kubestow.commands.naming.kubectl_words import NamedObject
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners
from kubestow.models.workloads.view import split


def found(subject: ExplainSubject, snapshot: Snapshot, streams: Streams) -> ExplainSubject:
    """Return the subject with full names: ``NAMESPACE/NAME`` of a pod, ``KIND/NAMESPACE/NAME`` of a workload.

    As for kubectl, a name without a namespace is in that of -n, else in that of the context, else in ``default``. End the command if there
    is no such object, or with -A if several namespaces have one.
    """
    named = subject.named
    if subject.pod is not None and "/" not in subject.pod:
        named = NamedObject(f"--pod {subject.pod}", "Pod", subject.pod)
    if named is not None:
        place = f"{_namespace(named, subject, snapshot, streams)}/{named.name.rpartition('/')[2]}"
        return replace(subject, pod=place) if named.kind == "Pod" else replace(subject, workload=f"{named.kind}/{place}")
    if subject.within is None or subject.all_namespaces:
        return subject
    if subject.affinity is not None and "/" not in subject.affinity:
        return replace(subject, affinity=f"{subject.within}/{subject.affinity}")
    kind, name = split(subject.workload or "")
    if name and "/" not in name:
        return replace(subject, workload="/".join(filter(None, (kind, subject.within, name))))
    return subject


def only_namespace(subject: ExplainSubject, streams: Streams) -> str | None:
    """Return the namespace whose pending pods are shown; None for all, or if a pod or workload is named."""
    unlimited = subject.all_namespaces or subject.pod or subject.workload or streams.manifests
    return None if unlimited else subject.within


def _namespace(named: NamedObject, subject: ExplainSubject, snapshot: Snapshot, streams: Streams) -> str:
    """Return the namespace of a named object. End the command if it has none or several."""
    given = named.name.rpartition("/")[0]
    places = _namespaces(named.kind, named.name.rpartition("/")[2], snapshot)
    what = "pod" if named.kind == "Pod" else "workload"
    if subject.all_namespaces and not given:
        if len(places) != 1:
            why = f"is in namespaces {', '.join(places)}: choose one with -n" if places else f"no such {what} in the snapshot"
            fail([f"{named.typed}: {why}"])
        return places[0]
    namespace = given or subject.within or _current(streams)
    if namespace not in places:
        elsewhere = f"; there is one in {', '.join(places)} (-n {places[0]})" if places else ""
        fail([f"{named.typed}: no such {what} in namespace {namespace} of the snapshot{elsewhere}"])
    return namespace


def _namespaces(kind: str, name: str, snapshot: Snapshot) -> list[str]:
    """Return the namespaces that have such an object. A snapshot may hold the pods of a workload without the workload."""
    objects: Iterable[Any] = snapshot.pods if kind == "Pod" else snapshot.workloads.get(kind, ())
    places = {each.metadata.namespace or "default" for each in objects if each.metadata.name == name}
    if not places and kind != "Pod":
        owners = PodOwners(snapshot)
        keys = (owner.partition(" ")[2] for owner in set(map(owners.of, snapshot.pods)) if owner.startswith(f"{kind} "))
        places = {key.rpartition("/")[0] for key in keys if key.rpartition("/")[2] == name}
    return sorted(places)


def _current(streams: Streams) -> str:
    """Return the namespace of kubectl's context, as for kubectl; ``default`` without one, as for files."""
    cluster = streams.cluster
    if cluster is None:
        return "default"
    return cluster.namespace or context_namespace(cluster.kubectl, cluster.context, cluster.kubeconfig) or "default"
