"""Sentences on the halt of an update."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubestow.models.documents import placement as doc
from kubestow.solver.rollout.updates.controllers import Controller
from kubestow.solver.rollout.updates.state import UpdateState

ON_DELETE = "nothing rolls: with strategy OnDelete a pod is replaced only when it is deleted"
_ORDERED = "OrderedReady updates no pod before all are ready"
#: Maximum number of names in a sentence.
_MAX_NAMES = 3


def listed(names: Sequence[str]) -> str:
    """Return the first names of a list, and the number of further ones."""
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def halted(state: UpdateState, controller: Controller) -> str:
    """Return a sentence on the position and reason of an update's halt."""
    update = state.update
    if update.strategy == "OnDelete" and not state.waiting() and controller.refused(state) is None:
        return ON_DELETE
    if update.kind == "DaemonSet":
        return _daemon(state, controller)
    refused = controller.refused(state)
    if refused is not None:
        refusal = state.refusal(refused)
        return f"stuck at pod {_pod(state, state.members[refused].slot)}: it cannot be created: {refusal[1] if refusal is not None else ''}"
    k = controller.blocker(state)
    if k is None:
        slot = next((slot for slot in range(update.replicas) if not state.at(slot)), 0)
        return f"stuck at pod {_pod(state, slot)}: it is missing, and the template of its revision is not in the input"
    return _waits(state, k)


def _waits(state: UpdateState, k: int) -> str:
    update, member = state.update, state.members[k]
    name = member.key.rpartition("/")[2]
    n, lacking = state.where[k], state.lacking(k)
    if n is None:
        why = "no node takes it"
    elif lacking:
        why = f"volume {lacking[0][0]} is attached to node {lacking[0][1]}"
    else:
        why = f"it is not ready on node {member.node}"
    if update.parallel:
        condition = f", and maxUnavailable is {update.unavailable}" if update.counts else ""
        order = (
            f"every pod above the next one must be available{condition}" if not update.counts else f"it counts as unavailable{condition}"
        )
    else:
        order = _ORDERED
    if member.new or member.slot not in update.runs:
        return f"stuck at pod {name}: {why}"
    until = "is deleted" if n is None else "is deleted or gets ready"
    return f"stuck until pod {name} {until}: {why}, and {order}"


def _pod(state: UpdateState, slot: int) -> str:
    name = state.update.workload.rpartition("/")[2]
    ordinals = state.update.obj.spec.ordinals
    return f"{name}-{slot + ((ordinals.start or 0) if ordinals is not None else 0)}"


def _daemon(state: UpdateState, controller: Controller) -> str:
    update = state.update
    name = {n: node.metadata.name or "" for n, node in enumerate(update.snapshot.nodes)}
    refused = controller.refused(state)
    if refused is not None:
        refusal = state.refusal(refused)
        return (
            f"stuck at node {name[state.members[refused].slot]}: its new pod cannot be created: {refusal[1] if refusal is not None else ''}"
        )
    stuck = [k for k in state.waiting() if state.members[k].new]
    nodes_of_two = [name[state.members[k].slot] for k in stuck if len(state.at(state.members[k].slot)) > 1]
    alone = without_pod(state)
    parts = []
    if nodes_of_two:
        text = "the new pod does not fit next to the old one, which stays until the new one runs"
        parts.append(f"stuck on node{'s' * (len(nodes_of_two) > 1)} {listed(nodes_of_two)}: {text} (maxSurge {update.surge})")
    if alone:
        parts.append(f"node{'s' * (len(alone) > 1)} without a pod: {listed(alone)}")
    if not parts and update.strategy == "OnDelete":
        return ON_DELETE
    return "; ".join(parts) or "stuck: its pods do not serve"


def without_pod(state: UpdateState) -> list[str]:
    """Return the nodes that must have a pod of a DaemonSet and have none that serves."""
    nodes = state.update.snapshot.nodes
    if state.update.kind != "DaemonSet":
        return []
    slots = (slot for slot in sorted(state.update.runs) if not any(state.available(k) for k in state.at(slot)))
    return sorted(nodes[slot].metadata.name or "" for slot in slots)


def reasons(state: UpdateState, k: int) -> list[doc.Reason]:
    """Return every rule that rejects a waiting pod, with the number of nodes. For a DaemonSet only the pod's own node counts."""
    g, rejections = state.kind(k), []
    for rule in state.rules:
        mask = np.array(rule.rejects(g), copy=True)
        if state.update.kind == "DaemonSet":
            own = np.zeros_like(mask)
            own[state.members[k].slot] = mask[state.members[k].slot]
            mask = own
        if mask.any():
            rejections.append(doc.Reason(rule.name, int(np.count_nonzero(mask)), rule.message(g, mask)))
    if not state.cluster.n_nodes:
        rejections.append(doc.Reason("NoNodes", 0, "the snapshot has no nodes"))
    return sorted(rejections, key=lambda reason: (-reason.nodes, reason.rule))
