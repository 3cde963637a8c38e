"""The Audit document: what ``kubestow audit`` prints.

A finding has a stable code; what each means, with an example that triggers it and one that does not, is in docs/audit.md.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from models.documents.placement import API_VERSION, Doc, SnapshotRef, Unmodelled, expect

Severity = Literal["error", "warning", "info"]
#: The gravest first.
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")


class Finding(Doc, omit_defaults=True):
    """Something that is wrong, or will be. ``code``: KS and three digits, which never change their meaning; ``name``: the code in words,
    kebab-case; ``severity``: how grave it is; ``object``: whose it is (``Kind namespace/name``, or ``Kind name``); ``message``: what is
    wrong here; ``why``: why it matters; ``fix``: what to do; ``field``: where in the object; ``rule``: the scheduler plugin's name, where
    one is concerned; ``pods``: those concerned, namespace/name; ``nodes``: names of nodes concerned; ``domain``: the topology domain
    concerned, key=value."""

    code: str
    name: str
    severity: Severity
    object: str
    message: str
    why: str
    fix: str
    field: str | None = None
    rule: str | None = None
    pods: list[str] = []
    nodes: list[str] = []
    domain: str | None = None


class ComponentSpread(Doc):
    """A component of the control plane. ``component``: its name; ``instances``: how many run; ``nodes``: on how many nodes; ``machines``:
    by machine, its instances (by node where no label of the nodes names machines); ``most``: instances on the machine that holds the most;
    ``survives``: failures of any machines, one after the other, after which enough of it is left (a majority of etcd's members, one of the
    others)."""

    component: str
    instances: int
    nodes: int
    machines: dict[str, int]
    most: int
    survives: int


class Stage(Doc, omit_defaults=True):
    """A stage of distribution: ``name``: machines, zones, clouds or locations; ``label``: the node label that tells them apart (None: none
    that all nodes of the control plane carry); ``domains``: how many the control plane's nodes are in; ``survives``: failures of any of
    them that every component seen outlives; ``reached``: it is shown that one is outlived, by this label or by that of a stage whose
    domains hold whole ones of this; ``known``: the domains are told apart. Where machines are not, their numbers are those of nodes (at
    most so many machines), or of zones (at least)."""

    name: Literal["machines", "zones", "clouds", "locations"]
    domains: int
    survives: int
    reached: bool
    label: str | None = None
    known: bool = True


class ControlPlane(Doc, omit_defaults=True):
    """How the control plane stands (seed 002). ``nodes``: its nodes by name; ``etcd``: stacked (members beside API servers), external
    (members on other nodes) or unknown (none is seen); ``grade``: the furthest stage that is reached, zones being of the stage machines;
    non-distributed where it is shown that one machine's failure is too much, else unknown; ``machineLabel``: the label that names machines;
    ``components``: those that were seen; ``stages``: of distribution, the nearest first; ``workers``: by machine, the worker nodes on
    it."""

    nodes: list[str]
    etcd: Literal["stacked", "external", "unknown"]
    grade: Literal["non-distributed", "unknown", "machines", "clouds", "locations"]
    components: list[ComponentSpread] = []
    stages: list[Stage] = []
    workers: dict[str, int] = {}
    machineLabel: str | None = None


class Audit(Doc):
    """An audit. ``snapshot``: what was audited; ``counts``: how many findings there are of each severity; ``findings``: the gravest first;
    ``controlPlane``: how it stands, where the snapshot shows one; ``notChecked``: what could not be looked at, and why; ``unmodelled``:
    what of the input is not honoured."""

    snapshot: SnapshotRef
    counts: dict[str, int]
    findings: list[Finding]
    controlPlane: ControlPlane | None = None
    notChecked: list[str] = []
    unmodelled: list[Unmodelled] = []
    apiVersion: str = API_VERSION
    kind: str = "Audit"


_ORDER: Final = ("apiVersion", "kind", "snapshot", "counts", "findings", "controlPlane", "notChecked", "unmodelled")


def to_builtins(audit: Audit) -> dict[str, Any]:
    """Plain dicts and lists, in the document's order; ``controlPlane`` is left out where there is none."""
    plain = msgspec.to_builtins(audit)
    return {key: plain[key] for key in _ORDER if plain[key] is not None}


def from_builtins(plain: object) -> Audit:
    """Read an Audit document that was decoded from JSON or YAML.

    Raises:
        msgspec.ValidationError: a field is missing or has a wrong type; the message carries its path.
    """
    expect(plain, "Audit")
    return msgspec.convert(plain, Audit)
