"""Rules that can never hold with the existing nodes and objects. The parts are in separate modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.audit.checks.unsatisfiable import affinity, missing_objects, mutual_affinity, node_rules
from kubestow.audit.view.finding import Code
from kubestow.audit.view.label_matches import LabelMatches
from kubestow.audit.view.usable_nodes import UsableNodes
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import Finding

CODES: Final[tuple[Code, ...]] = (*node_rules.CODES, *affinity.CODES, *missing_objects.CODES, *mutual_affinity.CODES)


def check(view: ClusterView) -> Iterator[Finding]:
    usable_nodes = None
    if view.snapshot.nodes:
        usable_nodes = view.once(UsableNodes)
    else:
        view.not_checked.append("whether pods can ever be placed (rules about nodes, affinity, requests): the snapshot has no nodes")
    for subject in view.subjects:
        yield from node_rules.judge(view, subject, usable_nodes)
    if usable_nodes is not None:
        matches = view.once(LabelMatches)
        for s, subject in enumerate(view.subjects):
            if matches.terms[s] or usable_nodes.rules(subject).ports:
                yield from affinity.judge(matches, usable_nodes, s)
        yield from mutual_affinity.find(view, matches)
    yield from missing_objects.find(view)
