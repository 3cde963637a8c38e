"""The remedies for PodTopologySpread: a higher maxSkew, and constraints that become ScheduleAnyway."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube.objects import Pod, TopologySpreadConstraint
from kubestow.models.workloads.ownership import name
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.remedies import Arguments, Idea, Number, PodEdit, templates, text, with_spec


def _spread(pod: Pod, arguments: Arguments) -> Pod:
    wanted = arguments["constraint"]
    changed = {"maxSkew": int(arguments["to"])} if "to" in arguments else {"whenUnsatisfiable": "ScheduleAnyway", "minDomains": None}
    constraints = [
        msgspec.structs.replace(c, **changed) if text(c) == wanted else c for c in pod.spec.topologySpreadConstraints or ()
    ]  # minDomains is valid only with DoNotSchedule
    return with_spec(pod, topologySpreadConstraints=constraints)


def _constraints(cluster: Cluster) -> Iterator[tuple[str, TopologySpreadConstraint]]:
    """Yield each DoNotSchedule constraint with its owner."""
    for owner, pod in templates(cluster):
        for constraint in pod.spec.topologySpreadConstraints or ():
            if constraint.whenUnsatisfiable == "DoNotSchedule":
                yield owner, constraint


class SpreadRemedies(Rule):
    """DoNotSchedule constraints to relax."""

    pod_changes = {"raiseMaxSkew": PodEdit(_spread), "scheduleAnyway": PodEdit(_spread)}

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        for owner, constraint in _constraints(cluster):
            message = f"make the spread of {name(owner)} over {constraint.topologyKey} ScheduleAnyway"
            yield Idea(cls.name, 3, Remedy("scheduleAnyway", message, {"workload": owner, "constraint": text(constraint)}))

    @classmethod
    def raises(cls, cluster: Cluster) -> Iterator[Number]:
        """Yield the maxSkew of each distinct constraint. Beyond the number of all pods it has no effect."""
        distinct = {(owner, text(constraint)): constraint for owner, constraint in _constraints(cluster)}
        for (owner, listed), constraint in distinct.items():

            def raised(skew: int, owner: str = owner, listed: str = listed, constraint: TopologySpreadConstraint = constraint) -> Remedy:
                message = f"raise maxSkew over {constraint.topologyKey} of {name(owner)} from {constraint.maxSkew} to {skew}"
                return Remedy("raiseMaxSkew", message, {"workload": owner, "constraint": listed, "to": str(skew)})

            yield Number(constraint.maxSkew, constraint.maxSkew + len(cluster.snapshot.pods), raised)
