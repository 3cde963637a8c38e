"""Workloads whose pods wait for each other: cycles of required affinity in which no pod can be placed first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kubestow.audit.view.finding import Code, some
from kubestow.audit.view.label_matches import LabelMatches
from kubestow.audit.view.usable_nodes import running, wanted
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding
from kubestow.models.gangs.markers import marker

MUTUAL: Final = Code(
    "KS231", "affinity-mutual", "error",
    "Workloads require affinity to each other's pods without being a gang",
    "kube-scheduler places one pod at a time. The first pod of each workload waits for a pod of another, so none is ever placed. If they"
    " run now, they cannot restart once all pods of one workload are gone.",
    "Add the annotation kubestow.dev/gang with the same name to the pod templates, so that kubestow places them together, or make one of"
    " the rules preferred.",
)  # fmt: skip
CODES: Final[tuple[Code, ...]] = (MUTUAL,)


def find(view: ClusterView, matches: LabelMatches) -> Iterator[Finding]:
    """Yield a finding for each cycle."""
    wants = {s: targets for s in range(len(view.subjects)) if (targets := _targets(matches, s))}
    free = set(range(len(view.subjects))) - wants.keys()
    grown = True
    while grown:  # add subjects that follow subjects whose pods can be placed
        more = {s for s, targets in wants.items() if s not in free and not free.isdisjoint(targets)}
        free |= more
        grown = bool(more)
    stuck = {s: [h for h in targets if h in wants] for s, targets in wants.items() if s not in free}
    for circle in _circles(stuck):
        subjects = [view.subjects[s] for s in circle]
        gangs = {marker(subject.pod) for subject in subjects}
        if (len(gangs) == 1 and None not in gangs) or not all(wanted(subject) for subject in subjects):
            continue
        names = [subject.name for subject in subjects]
        there = any(running(view, subject) for subject in subjects)
        text = (
            f"required affinity to pods of {some(names[1:])}, and back: no pod of {'them' if len(names) > 2 else 'either'} can be the first"
        )
        yield MUTUAL.found(
            names[0], text + ("; they run now" if there else ""), field=f"{subjects[0].path}.affinity.podAffinity",
            rule="InterPodAffinity", pods=view.keys([i for subject in subjects for i in subject.pods]),
            severity="warning" if there else None,
        )  # fmt: skip


def _targets(matches: LabelMatches, s: int) -> list[int] | None:
    """Return the other subjects whose pods a subject must be near.

    None if it can be placed first, or if its targets belong to no workload or do not exist, which other findings
    report.
    """
    affinity = [t for t in matches.terms[s] if t.required and t.kind == "affinity"]
    if not affinity or any(t.selector is None for t in affinity):
        return None
    hits = np.logical_and.reduce([matches.may_hit(t.selector, t.may_look) for t in affinity])
    if not hits.any() or hits[matches.own[s]]:
        return None
    matching_subjects = matches.subjects(hits, without=s)
    owned = {i for h in matching_subjects for i in matches.view.subjects[h].pods}
    return None if not matching_subjects or any(i not in owned for i in matches.pods(hits, without=s)) else matching_subjects


def _circles(graph: dict[int, list[int]]) -> Iterator[list[int]]:
    """Yield the nodes of each strongly connected component with at least two nodes, ascending."""
    reach: dict[int, set[int]] = {}
    for s in graph:
        seen: set[int] = set()
        queue = list(graph[s])
        while queue:
            h = queue.pop()
            if h not in seen:
                seen.add(h)
                queue += graph.get(h, ())
        reach[s] = seen
    yielded: set[int] = set()
    for s in sorted(graph):
        circle = sorted(h for h in graph if h in reach[s] and s in reach[h])
        if s in reach[s] and s not in yielded and len(circle) > 1:
            yielded.update(circle)
            yield circle
