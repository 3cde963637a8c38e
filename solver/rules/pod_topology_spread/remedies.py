"""The remedies for PodTopologySpread.

Constraints leave out nodes that take no pod, or pods of other revisions. maxSkew is raised, minDomains lowered, or the
constraint becomes ScheduleAnyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube.objects import Pod, TopologySpreadConstraint
from kubestow.models.workloads.ownership import HASH, name
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.remedies import Arguments, Idea, Number, PodEdit, templates, text, with_spec


def _changing(fields: Callable[[TopologySpreadConstraint, Arguments], dict[str, object]]) -> PodEdit:
    """Return the change of these fields of the constraint of a remedy."""

    def edit(pod: Pod, arguments: Arguments) -> Pod:
        constraints = [
            msgspec.structs.replace(c, **fields(c, arguments)) if text(c) == arguments["constraint"] else c
            for c in pod.spec.topologySpreadConstraints or ()
        ]
        return with_spec(pod, topologySpreadConstraints=constraints)

    return PodEdit(edit)


def _constraints(cluster: Cluster) -> Iterator[tuple[str, TopologySpreadConstraint]]:
    """Yield each DoNotSchedule constraint with its owner."""
    for owner, pod in templates(cluster):
        yield from ((owner, constraint) for constraint in _hard(pod))


def _hard(pod: Pod) -> list[TopologySpreadConstraint]:
    return [c for c in pod.spec.topologySpreadConstraints or () if c.whenUnsatisfiable == "DoNotSchedule"]


class SpreadRemedies(Rule):
    """DoNotSchedule constraints to relax."""

    pod_changes = {
        "raiseMaxSkew": _changing(lambda _, arguments: {"maxSkew": int(arguments["to"])}),
        "lowerMinDomains": _changing(lambda _, arguments: {"minDomains": int(arguments["to"])}),
        # minDomains is valid only with DoNotSchedule
        "scheduleAnyway": _changing(lambda *_: {"whenUnsatisfiable": "ScheduleAnyway", "minDomains": None}),
        "honorTaints": _changing(lambda *_: {"nodeTaintsPolicy": "Honor"}),
        "honorAffinity": _changing(lambda *_: {"nodeAffinityPolicy": "Honor"}),
        "countRevision": _changing(lambda constraint, _: {"matchLabelKeys": [*(constraint.matchLabelKeys or ()), HASH]}),
    }

    @classmethod
    def corrections(cls, cluster: Cluster) -> Iterator[Idea]:
        """Yield constraints that no longer count nodes where the pods cannot go, or pods of other revisions."""
        for owner, pod in templates(cluster):
            for constraint in _hard(pod):
                changes = []
                if constraint.nodeTaintsPolicy != "Honor":
                    changes.append(("honorTaints", "set nodeTaintsPolicy: Honor"))
                if constraint.nodeAffinityPolicy == "Ignore":
                    changes.append(("honorAffinity", "set nodeAffinityPolicy: Honor"))
                if HASH in (pod.metadata.labels or {}) and HASH not in (constraint.matchLabelKeys or ()) and constraint.labelSelector:
                    changes.append(("countRevision", f"set matchLabelKeys: [{', '.join((*(constraint.matchLabelKeys or ()), HASH))}]"))
                for change, words in changes:
                    message = f"{words} in the spread of {name(owner)} over {constraint.topologyKey}"
                    yield Idea(cls.name, 0, Remedy(change, message, {"workload": owner, "constraint": text(constraint)}))

    @classmethod
    def lowers(cls, cluster: Cluster) -> Iterator[Number]:
        """Yield the minDomains of each distinct constraint."""
        distinct = {(owner, text(constraint)): constraint for owner, constraint in _constraints(cluster)}
        for (owner, listed), constraint in distinct.items():
            least = constraint.minDomains or 1
            where = f"over {constraint.topologyKey} of {name(owner)}"

            def lowered(domains: int, owner: str = owner, listed: str = listed, least: int = least, where: str = where) -> Remedy:
                arguments = {"workload": owner, "constraint": listed, "from": str(least), "to": str(domains)}
                return Remedy("lowerMinDomains", f"lower minDomains {where} from {least} to {domains}", arguments)

            if least > 1:
                yield Number(least, 1, lowered)

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
