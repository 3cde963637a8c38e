"""Relaxations of rules, each as a remedy that is not yet proved."""

from __future__ import annotations

import msgspec

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.workloads.ownership import name
from kubestow.solver import rules
from kubestow.solver.rules.remedies import Idea


def ideas(cluster: Cluster) -> list[Idea]:
    """Return the possible relaxations, the smallest first, except those with numbers (maxSkew, replicas, nodes).

    Relaxations that several owners share are tried for each owner, and for all together.
    """
    found: dict[tuple[str, str], Idea] = {}
    groups: dict[str, list[Idea]] = {}
    for idea in (idea for kind in rules.ALL for idea in kind.ideas(cluster)):
        arguments = dict(idea.remedy.arguments)
        owner = arguments.pop("workload", "")
        key = idea.remedy.change + msgspec.json.encode(arguments, order="sorted").decode()
        if (owner, key) not in found:
            found[owner, key] = idea
            groups.setdefault(key, []).append(idea)
    joint = [_joint(group) for group in groups.values() if len(group) > 1]
    return sorted([*found.values(), *joint], key=lambda idea: (idea.size, idea.remedy.message))


def _joint(group: list[Idea]) -> Idea:
    owners = "; ".join(idea.remedy.arguments["workload"] for idea in group)
    first, *others = group
    names = ", ".join(name(idea.remedy.arguments["workload"]) for idea in others)
    remedy = Remedy(first.remedy.change, f"{first.remedy.message}; the same of {names}", {**first.remedy.arguments, "workload": owners})
    return Idea(first.rule, max(idea.size for idea in group) + 10 * len(others), remedy)
