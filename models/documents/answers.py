"""The documents that ``kubestow verify`` and ``kubestow explain`` print as JSON or YAML.

They answer one question about one snapshot and nothing reads them back, so they carry neither ``kind`` nor ``apiVersion``; their version
is that of their schema (:mod:`report.documents.schemas`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from models.documents.placement import Cause, Doc


class Violation(Doc):
    """A rule that a document breaks. ``pod``: which pod breaks it (``namespace/name``), empty where it is the document; ``node``: which
    node, empty or null where none is concerned; ``rule``: the scheduler plugin's name, or what else is broken; ``why``: the sentence."""

    pod: str
    node: str | None
    rule: str
    why: str


class Verification(Doc):
    """What ``verify`` found in a Placement or a RebalancePlan. ``valid``: whether nothing is wrong; ``violations``: what is."""

    valid: bool
    violations: list[Violation]


class PodCounts(Doc):
    """Where a pod could go, in numbers. ``pod``: ``namespace/name``; ``feasible``: how many nodes no rule rejects; ``rejected``: by rule
    (the scheduler plugin's name), how many nodes it rejects; a node may count under several."""

    pod: str
    feasible: int
    rejected: dict[str, int]


class Explanation(Doc, omit_defaults=True):
    """What ``explain`` answers. ``pods``: the pods asked about; ``causes``: why those that fit nowhere do not, and what would help; absent
    if there are none."""

    pods: list[PodCounts]
    causes: list[Cause] = []


class PodNodes(Doc):
    """Where a pod could go, node by node. ``pod``: ``namespace/name``; ``feasible``: the nodes that no rule rejects; ``rejected``: by name
    of every other node, the rules (scheduler plugins' names) that reject it."""

    pod: str
    feasible: Sequence[str]
    rejected: Mapping[str, Sequence[str]]


class NodeExplanation(Doc):
    """What ``explain --per-node`` answers. ``pods``: the pods asked about."""

    pods: list[PodNodes]


class ContainerPair(Doc):
    """What one container wants of another, both ``namespace/pod/container``. ``from``: the one that wants; ``to``: the one that it wants
    near; ``weight``: A(from, to); below zero it wants it far."""

    source: str = msgspec.field(name="from")
    to: str
    weight: int


class ContainerAffinity(Doc):
    """What ``explain --affinity`` answers. ``pod``: the pod, or the workload whose template it is (``namespace/name``); ``containers``: its
    containers; ``affinity``: the pairs whose A is not zero, from or to one of them."""

    pod: str
    containers: list[str]
    affinity: list[ContainerPair]
