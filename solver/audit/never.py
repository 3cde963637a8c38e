"""Rules that can never hold with the nodes and objects that there are. The parts are in modules of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from models.documents.audit import Finding
from solver.audit import never_affinity, never_missing, never_nodes
from solver.audit.base import Code
from solver.audit.crowd import Crowd
from solver.audit.reach import Reach
from solver.audit.view import View

CODES: Final[tuple[Code, ...]] = (*never_nodes.CODES, *never_affinity.CODES, *never_missing.CODES)


def check(view: View) -> Iterator[Finding]:
    reach = None
    if view.snapshot.nodes:
        reach = view.once(Reach)
    else:
        view.not_checked.append("whether pods can ever be placed (rules about nodes, affinity, requests): the snapshot has no nodes")
    for subject in view.subjects:
        yield from never_nodes.judge(view, subject, reach)
    if reach is not None:
        crowd = view.once(Crowd)
        for s, subject in enumerate(view.subjects):
            if crowd.terms[s] or reach.rules(subject).ports:
                yield from never_affinity.judge(crowd, reach, s)
    yield from never_missing.find(view)
