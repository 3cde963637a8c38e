"""Redundancy of the control plane (docs/sources.md#anti-affinity-of-nodes), and distribution of the workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubestow.audit.checks.control_plane import codes, machines, standard, user_pods, zones
from kubestow.audit.checks.control_plane.layout import Layout, layout, physical_label
from kubestow.audit.checks.control_plane.members import API_SERVER, ETCD, USUAL, labels_of, workers
from kubestow.audit.view.finding import Code
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import ControlPlane, Finding, Requirement

CODES: Final[tuple[Code, ...]] = codes.CODES


def check(view: ClusterView) -> Iterator[Finding]:
    """Yield findings about the control plane, the distribution of workers, and the labels that both depend on.

    Parts that the snapshot does not show are noted in ``view.not_checked``.
    """
    control_plane = layout(view)
    if control_plane is None:
        if view.snapshot.nodes:
            view.not_checked.append(
                f"the control plane: no node has its role and no pod is a {API_SERVER}; it may be managed or hosted elsewhere"
            )
    else:
        view.not_checked += _unseen(control_plane)
        yield from machines.check(control_plane)
        yield from zones.check(control_plane)
        yield from user_pods.check(control_plane)
    labels = labels_of(view.snapshot)
    key = physical_label(view, labels, control_plane)
    if key is None and control_plane is not None:
        key = machines.unlabelled(control_plane)
    if concerned(view, control_plane):
        yield from zones.check_required_labels(labels)
    if key is not None:
        working = control_plane.workers if control_plane is not None else tuple(workers(view.snapshot, None))
        yield from zones.check_labels(view, labels, working, key)


def concerned(view: ClusterView, found: Layout | None) -> bool:
    """Return True if the SCS requirements apply: the snapshot shows a control plane, or a machine label is found or given."""
    labels = labels_of(view.snapshot)
    return len(labels) > 1 and (found is not None or bool(view.machine_labels) or physical_label(view, labels, found) is not None)


def requirements(view: ClusterView) -> list[Requirement] | None:
    """Return the SCS requirements, each as met, broken or not provable. None if they do not apply."""
    control_plane = layout(view)
    if not concerned(view, control_plane):
        return None
    working = control_plane.workers if control_plane is not None else tuple(workers(view.snapshot, None))
    return standard.requirements(view, control_plane, labels_of(view.snapshot), working)


def describe(view: ClusterView) -> ControlPlane | None:
    """Return the layout of the control plane for the document. None if the snapshot shows none."""
    control_plane = layout(view)
    return control_plane.document() if control_plane is not None else None


def _unseen(found: Layout) -> Iterator[str]:
    """Yield notes on components without any trace. etcd has its own finding."""
    seen = {part.name for part in found.members.components}
    missing = [name for name in USUAL if name not in seen and name != ETCD]
    if len(missing) == len(USUAL) - 1:
        yield "the components of the control plane: none runs as a pod (k3s keeps them in one process); its nodes are graded instead"
    elif missing:
        yield f"{', '.join(missing)}: not among the pods of the control plane"
