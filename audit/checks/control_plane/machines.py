"""Findings about control-plane components on their nodes and machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kubestow.audit.checks.control_plane import codes, standard
from kubestow.audit.checks.control_plane.failure_domains import HOST_ID, lacking, spread
from kubestow.audit.checks.control_plane.layout import Layout
from kubestow.audit.checks.control_plane.members import ControlPlaneComponent
from kubestow.audit.view.finding import some
from kubestow.models.documents.findings.audit import Finding

#: Object of findings about the whole control plane.
WHOLE = "ControlPlane"


def check(found: Layout) -> Iterator[Finding]:
    """Yield findings about redundancy, distribution over machines, the number of etcd members, and unknown machines."""
    yield from _doubled(found)
    if found.machines.sense == "zone":  # a zone may contain many machines, but a node is on one
        where, key = {node: node for node in found.members.nodes}, None
    else:
        where, key = found.machine_of, found.machines.label
    yield from _halves(found, where, key)
    yield from _apart(found)
    yield from _distributed(found, where, key)
    yield from _etcd(found)
    yield from _known(found)


def _doubled(found: Layout) -> Iterator[Finding]:
    if len(found.members.nodes) == 1:
        (node,) = found.members.nodes
        message = f"node {node} is its only node, so no component is redundant; at least two nodes are required"
        pods = found.view.keys([i for part in found.members.components for i in part.pods])
        # A single-node cluster is intended, so this is a warning. A missing instance among several nodes is an
        # error.
        yield codes.NOT_DOUBLED.found(WHOLE, message, pods=pods, nodes=[node], severity="warning")
        return
    for part in found.members.components:
        if len(part.homes) == 1:
            message = f"runs once, on node {part.homes[0]}; at least two are required, on different nodes"
            yield codes.NOT_DOUBLED.found(f"Component {part.name}", message, pods=found.view.keys(part.pods), nodes=part.homes)


def _halves(found: Layout, where: Mapping[str, str], key: str | None) -> Iterator[Finding]:
    for part in found.parts:
        counts = spread(part, where)
        machine, largest = counts.most_common(1)[0]
        total = len(part.homes)
        if total < 2 or 2 * largest <= total:
            continue
        pods = [i for i, home in zip(part.pods, part.homes, strict=False) if where[home] == machine]
        homes = list(dict.fromkeys(home for home in part.homes if where[home] == machine))
        on = f"one machine, {machine}" if key else f"one node, {machine}"
        message = f"{largest} of {total} {_instances(part)} on {on}; no more than {total // 2} should be"
        domain = f"{key}={machine}" if key else None
        yield codes.HALF.found(_object(part), message, pods=found.view.keys(pods), nodes=homes, domain=domain)


def _apart(found: Layout) -> Iterator[Finding]:
    """Yield components whose halves share machines, in the sense of the SCS decision record."""
    if len(found.members.nodes) == 1:  # otherwise KS901 covers it
        return
    for part, (status, why) in standard.halves_of(found):
        if status == "broken" and len(part.homes) > 1:
            yield codes.HALVES.found(_object(part), why, pods=found.view.keys(part.pods), nodes=list(dict.fromkeys(part.homes)))


def _distributed(found: Layout, where: Mapping[str, str], key: str | None) -> Iterator[Finding]:
    """Yield the finding about domains whose failure stops a component.

    The domains are known machines or nodes, so the result is valid wherever the machines are.
    """
    stopped = found.stopped(where)
    if stopped and len(found.members.nodes) > 1:  # otherwise KS901 covers it
        noun = "machine" if key else "node"
        yield codes.NOT_DISTRIBUTED.found(WHOLE, failures(stopped, noun), nodes=found.members.nodes)


def failures(stopped: Mapping[str, Sequence[str]], noun: str) -> str:
    """Return the result of :meth:`Layout.stopped` as text. ``noun`` names a domain."""
    return "; ".join(f"the failure of {noun} {domain} leaves {', '.join(parts)}" for domain, parts in stopped.items())


def _etcd(found: Layout) -> Iterator[Finding]:
    members = [part for part in found.members.components if part.is_etcd]
    for part in members:
        total = len(part.homes)
        if total % 2 == 0:
            tolerated_failures = total - part.needed
            outlive = (
                f"survive {tolerated_failures} failure{'s' if tolerated_failures > 1 else ''}"
                if tolerated_failures
                else "survive no failure"
            )
            message = f"{total} members need {part.needed} for a majority and {outlive}, as {total - 1} would"
            yield codes.EVEN.found(_object(part), message, pods=found.view.keys(part.pods), nodes=part.homes)
    if not members:
        message = "no pod or node role shows a member of etcd: it runs outside the cluster, or as a host process"
        yield codes.ETCD_UNSEEN.found(WHOLE, message, nodes=found.members.nodes)


def _known(found: Layout) -> Iterator[Finding]:
    nodes = found.members.nodes
    if found.stages[0].known or len(nodes) == 1:
        return
    wanted = found.view.machine_labels or (HOST_ID,)
    key = min(wanted, key=lambda key: len(lacking(found.labels, nodes, key)))
    bare = lacking(found.labels, nodes, key)
    carry = "no node of the control plane has" if len(bare) == len(nodes) else f"{some(bare)} of the control plane lacks"
    widest = max(found.stages[1:], key=lambda stage: stage.domains)
    least = f"{widest.domains}, as they are in {widest.domains} {widest.name}," if widest.domains > 1 else "one"
    message = f"{carry} {key}: its {len(nodes)} nodes are on at least {least} and at most {len(nodes)} machines"
    yield codes.MACHINES_UNKNOWN.found(WHOLE, message, nodes=bare, field=f"metadata.labels[{key}]")


def unlabelled(found: Layout) -> str | None:
    """Return the machine label that nodes should have, if the control plane is graded without one and no finding says so."""
    graded = found.stages[0].known or len(found.members.nodes) == 1
    return (found.view.machine_labels or (HOST_ID,))[0] if graded and len(found.labels) > 1 else None


def _object(part: ControlPlaneComponent) -> str:
    return WHOLE if not part.pods and not part.is_etcd else f"Component {part.name}"


def _instances(part: ControlPlaneComponent) -> str:
    if part.is_etcd:
        return "members are"
    return "instances are" if part.pods else "nodes are"
