"""The layout of a control plane on its machines and larger failure domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from kubestow.audit.checks.control_plane.failure_domains import HOST_ID, Labels, Machines, grade, machines, spread, stages, survives, value
from kubestow.audit.checks.control_plane.members import ControlPlaneComponent, Members, find, labels_of, workers
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import ComponentSpread, ControlPlane, Stage


@dataclass(frozen=True)
class Layout:
    """A control plane on its machines.

    Attributes:
        view: The cluster.
        members: Nodes and components of the control plane.
        labels: Labels of all nodes.
        machines: How machines are identified.
        workers: Names of the worker nodes.
    """

    view: ClusterView
    members: Members
    labels: Labels
    machines: Machines
    workers: tuple[str, ...]

    @cached_property
    def parts(self) -> tuple[ControlPlaneComponent, ...]:
        return self.members.parts

    @cached_property
    def machine_of(self) -> dict[str, str]:
        """The machine of each control-plane node."""
        return {node: self.machines.of(self.labels, node) for node in self.members.nodes}

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages: machines, zones, clouds, locations."""
        return stages(self.labels, self.members.nodes, self.parts, self.machines, self.view.stage_labels)

    @cached_property
    def outlives_nodes(self) -> int:
        """The number of arbitrary node failures that the control plane survives."""
        return min(survives(Counter(part.homes).values(), part.needed) for part in self.parts)

    def stopped(self, where: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the components that a domain failure stops, by domain. ``where`` maps nodes to domains.

        Only the worst domain of each component is included.
        """
        found: dict[str, list[str]] = {}
        for part in self.parts:
            counts = spread(part, where)
            if not survives(counts.values(), part.needed):
                domain, largest = counts.most_common(1)[0]
                total = len(part.homes)
                found.setdefault(domain, []).append(f"{total - largest} of {total} {part.noun} ({part.needed} needed)")
        return found

    def document(self) -> ControlPlane:
        return ControlPlane(
            list(self.members.nodes),
            self.members.etcd,
            grade(self.stages, by_node=self.outlives_nodes),
            [self._component(part) for part in self.members.components],
            self.stages,
            dict(worker_machines(self.labels, self.workers, self.machines.label)),
            self.machines.label,
        )

    def _component(self, part: ControlPlaneComponent) -> ComponentSpread:
        counts = spread(part, self.machine_of)
        homes = len(set(part.homes))
        return ComponentSpread(
            part.name, len(part.homes), homes, dict(counts), max(counts.values()), survives(counts.values(), part.needed)
        )


def layout(view: ClusterView) -> Layout | None:
    """Return the layout of a snapshot's control plane. None if the snapshot shows none."""
    members = find(view.snapshot)
    if members is None:
        return None
    labels = labels_of(view.snapshot)
    found = machines(labels, members.nodes, view.machine_labels)
    return Layout(view, members, labels, found, tuple(workers(view.snapshot, members)))


def worker_machines(labels: Labels, names: tuple[str, ...], key: str | None) -> Counter[str]:
    """Return the number of workers by machine, for workers with the label."""
    return Counter(machine for name in names if key is not None and (machine := value(labels, name, key)) is not None)


def physical_label(view: ClusterView, labels: Labels, found: Layout | None) -> str | None:
    """Return the label that names physical machines. Without a control plane, return the first trusted label that any node has."""
    if found is not None:
        return found.machines.label if found.machines.sense == "machine" else None
    keys = view.machine_labels or (HOST_ID,)
    return next((key for key in keys if any(value(labels, name, key) for name in labels)), None)
