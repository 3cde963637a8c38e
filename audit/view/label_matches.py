"""Matches of label selectors against the labels of all pods and pod templates of a snapshot."""

from __future__ import annotations

from typing import Final

import numpy as np

from kubestow.audit.view.pod_terms import PodTerm, terms
from kubestow.audit.view.view import ClusterView, Subject
from kubestow.models.cluster.cluster import Matchers
from kubestow.models.kube.objects import Service, is_terminal, is_terminating
from kubestow.models.kube.selectors import Bools, LabelRequirement, Selector
from kubestow.models.snapshot.snapshot import Snapshot

#: Labels that controllers add to the pods of a template. The template does not contain their values.
ADDED: Final = frozenset(
    {
        "pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index", "job-name", "controller-uid",
    }
)  # fmt: skip


def custom_maker(snapshot: Snapshot, namespace: str, selector: Selector) -> str | None:
    """Return the new custom object whose controller may create the pods of a selector, as ``Kind namespace/name``.

    Controllers label the pods that they create with the name of their object (``prometheus: k8s``,
    ``app.kubernetes.io/instance: k8s``). If an API server has stored the object, its pods are in the snapshot.
    """
    for requirement in selector:
        for value in requirement.values if requirement.operator == "In" else ():
            kind = snapshot.custom_objects.get((namespace, value))
            if kind is not None:
                return f"{kind} {namespace}/{value}"
    return None


class LabelMatches:
    """The terms of all subjects, evaluated over P profiles.

    A profile is a distinct pair of namespace and labels. Only labels that some selector (including those of
    Services) reads are kept.

    Attributes:
        services: Services that select pods, each with its selector.
        terms: Terms by subject.
        own: Profile of each subject's template.
        members: Indices of the living pods, by profile. Terminated pods match nothing.
        makers: Subjects whose template has the profile, by profile.
        spaces: Namespaces of pods and templates.
    """

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.services: list[tuple[Service, Selector]] = [
            (service, tuple(sorted(LabelRequirement(key, "In", (value,)) for key, value in service.spec.selector.items())))
            for service in view.snapshot.services
            if service.spec is not None and service.spec.selector
        ]
        self.terms: list[list[PodTerm]] = [list(terms(view, subject)) for subject in view.subjects]
        read = {r.key for each in self.terms for term in each for r in term.selector or ()} | {r.key for _, s in self.services for r in s}
        index: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}

        def profile(namespace: str, labels: dict[str, str]) -> int:
            return index.setdefault((namespace, tuple(sorted((k, v) for k, v in labels.items() if k in read))), len(index))

        self.own = [profile(subject.namespace, subject.labels) for subject in view.subjects]
        of = [
            -1 if is_terminal(pod) else profile(pod.metadata.namespace or "default", pod.metadata.labels or {})
            for pod in view.snapshot.pods
        ]
        self.members: list[list[int]] = [[] for _ in index]
        self.makers: list[list[int]] = [[] for _ in index]
        for i, p in enumerate(of):
            if p >= 0:
                self.members[p].append(i)
        made = np.zeros(len(index), dtype=bool)
        for s, p in enumerate(self.own):
            self.makers[p].append(s)
            made[p] |= view.subjects[s].workload is not None
        self._made = made
        self._number = {subject.name: s for s, subject in enumerate(view.subjects)}
        self.spaces = frozenset(namespace for namespace, _ in index)
        self._matchers = Matchers()
        self._matchers.freeze(list(index))

    def hits(self, selector: Selector | None, namespaces: frozenset[str] | None) -> Bools:
        """Return bool[P]: the profiles that certainly match."""
        if selector is None:
            return np.zeros(len(self.members), dtype=bool)
        return self._matchers.hits(self._matchers.add((namespaces, selector)))

    def may_hit(self, selector: Selector | None, namespaces: frozenset[str] | None) -> Bools:
        """Return bool[P]: the profiles that match, plus templates whose pods match if controllers add suitable labels."""
        found = self.hits(selector, namespaces)
        if selector is None or not any(r.key in ADDED for r in selector):
            return found
        return found | (self.hits(tuple(r for r in selector if r.key not in ADDED), namespaces) & self._made)

    def number(self, subject: Subject) -> int:
        """Return the index of a subject."""
        return self._number[subject.name]

    def pods(self, profiles: Bools, *, without: int | None = None) -> list[int]:
        """Return the indices of the living pods of the given profiles.

        With ``without``, leave out the pods of that subject and all terminating pods, which may belong to it.
        """
        pods = self.view.snapshot.pods
        found = [i for p in np.flatnonzero(profiles) for i in self.members[p]]
        if without is None:
            return found
        leave = set(self.view.subjects[without].pods)
        return [i for i in found if i not in leave and not is_terminating(pods[i])]

    def subjects(self, profiles: Bools, *, without: int | None = None) -> list[int]:
        """Return the subjects with a template or a pod in the given profiles, ascending, except ``without``."""
        found: set[int] = set()
        for p in np.flatnonzero(profiles):
            found.update(self.makers[p])
            found.update(self._number[self.view.subject_of[i].name] for i in self.members[p] if i in self.view.subject_of)
        found.discard(-1 if without is None else without)
        return sorted(found)
