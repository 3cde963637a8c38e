"""A control plane on its machines and further domains: what the checks ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from kubestow.audit.checks.control_plane.failure_domains import HOST_ID, Labels, Machines, grade, machines, spread, stages, survives, value
from kubestow.audit.checks.control_plane.members import Component, Members, find, labels_of, workers
from kubestow.audit.view.view import ClusterView
from kubestow.models.documents.findings.audit import ComponentSpread, ControlPlane, Stage


@dataclass(frozen=True)
class Layout:
    """``labels``: of all nodes; ``machines``: how the control plane's are told apart; ``workers``: names of worker nodes."""

    view: ClusterView
    members: Members
    labels: Labels
    machines: Machines
    workers: tuple[str, ...]

    @cached_property
    def parts(self) -> tuple[Component, ...]:
        return self.members.parts

    @cached_property
    def machine_of(self) -> dict[str, str]:
        """The machine of each node of the control plane."""
        return {node: self.machines.of(self.labels, node) for node in self.members.nodes}

    @cached_property
    def stages(self) -> list[Stage]:
        """Machines, zones, clouds, locations."""
        return stages(self.labels, self.members.nodes, self.parts, self.machines, self.view.stage_labels)

    @cached_property
    def outlives_nodes(self) -> int:
        """Return how many nodes may fail, whichever they are."""
        return min(survives(Counter(part.homes).values(), part.needed) for part in self.parts)

    def stopped(self, where: Mapping[str, str]) -> dict[str, list[str]]:
        """By domain whose failure is too much for a component, the components. ``where``: the domain of each node. Of a component the worst
        domain is looked at."""
        found: dict[str, list[str]] = {}
        for part in self.parts:
            counts = spread(part, where)
            if not survives(counts.values(), part.needed):
                domain, most = counts.most_common(1)[0]
                total = len(part.homes)
                found.setdefault(domain, []).append(f"{total - most} of {total} {part.noun} ({part.needed} needed)")
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

    def _component(self, part: Component) -> ComponentSpread:
        counts = spread(part, self.machine_of)
        homes = len(set(part.homes))
        return ComponentSpread(
            part.name, len(part.homes), homes, dict(counts), max(counts.values()), survives(counts.values(), part.needed)
        )


def layout(view: ClusterView) -> Layout | None:
    """Return how the control plane of a snapshot stands; None where it shows none."""
    members = find(view.snapshot)
    if members is None:
        return None
    labels = labels_of(view.snapshot)
    found = machines(labels, members.nodes, view.machine_labels)
    return Layout(view, members, labels, found, tuple(workers(view.snapshot, members)))


def worker_machines(labels: Labels, names: tuple[str, ...], key: str | None) -> Counter[str]:
    """By machine, how many of the workers that have the label are on it."""
    return Counter(machine for name in names if key is not None and (machine := value(labels, name, key)) is not None)


def physical_label(view: ClusterView, labels: Labels, found: Layout | None) -> str | None:
    """Return the label that names physical machines; without a control plane the first of those believed that any node has."""
    if found is not None:
        return found.machines.label if found.machines.sense == "machine" else None
    asked = view.machine_labels or (HOST_ID,)
    return next((key for key in asked if any(value(labels, name, key) for name in labels)), None)
