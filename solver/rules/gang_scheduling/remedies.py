"""The remedy for GangScheduling: a required topology that becomes preferred."""

from __future__ import annotations

from collections.abc import Iterator

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.gangs import gangs
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.remedies import Idea


class GangRemedies(Rule):
    """Topologies to make preferred."""

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        gang = gangs.common(cluster.snapshot, cluster.scope, tiers=cluster.policy.networkTiers)
        if gang is not None and gang.required and gang.key is not None:
            message = f"make the topology {gang.key} of gang {gang.name} preferred"
            yield Idea(cls.name, 2, Remedy("preferTopology", message, {"gang": gang.name, "key": gang.key}))
