"""The strategy RemoveDuplicates: places pods of one owner with the same images on different nodes.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/framework/plugins/removeduplicates/removeduplicates.go.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from kubestow.audit.descheduler.arguments import Duplicates
from kubestow.audit.descheduler.plugin_run import PluginRun
from kubestow.models.kube.objects import Pod

#: Namespace, kind and name of an owner, and its sorted images.
_Owner = tuple[str, str, str, tuple[str, ...]]


def duplicates(run: PluginRun, args: Duplicates) -> None:
    """Evict an owner's pods on a node beyond the rounded-up average over its possible nodes, if it has at least two."""
    found, occurrences = _find(run, args)
    for owner, by_node in found.items():
        targets = _targets(run, [i for pods in by_node.values() for i in pods])
        name = f"{owner[1]} {owner[0]}/{owner[2]}"
        if targets < 2:
            run.notes.append(f"{name}: fewer than two nodes could have its pods")
            continue
        average = -(-occurrences[owner] // targets)
        for n, pods in by_node.items():
            for i in pods[average - 1 :]:  # the first pod on a node is not a duplicate and not in the list
                answer = run.evict(i, n, f"{len(pods) + 1} pods of {name} run on its node, the average is {average}")
                if answer == "node limit":
                    break
                if answer == "total limit":
                    return


def _find(run: PluginRun, args: Duplicates) -> tuple[dict[_Owner, dict[int, list[int]]], Counter[_Owner]]:
    """Return the duplicates by owner and node, without the first pod on each node, and the number of pods per owner."""
    evictor = run.evictor
    pods = evictor.state.facts.pods
    found: dict[_Owner, dict[int, list[int]]] = {}
    occurrences: Counter[_Owner] = Counter()
    for n in evictor.nodes:
        seen: set[tuple[_Owner, ...]] = set()
        for i in evictor.state.on(n):
            metadata = pods[i].metadata
            namespace, owners = metadata.namespace or "default", metadata.ownerReferences or []
            if not owners or not args.namespaces.have(namespace) or any(o.kind in args.excludeOwnerKinds for o in owners):
                continue
            if not (evictor.may(i) and evictor.now(i)):
                continue
            images = tuple(sorted(container.image or "" for container in pods[i].spec.containers or ()))
            mine = [(namespace, owner.kind, owner.name, images) for owner in owners]
            occurrences.update(mine)
            same = tuple(sorted(mine))
            if same not in seen:
                seen.add(same)
                continue
            for owner in mine:
                found.setdefault(owner, {}).setdefault(n, []).append(i)
    return found, occurrences


def _targets(run: PluginRun, pods: list[int]) -> int:
    """Return the number of nodes that could run such pods.

    Pods with different tolerations or node rules are considered separately. Pods that fit only one node do not
    count.
    """
    facts, nodes = run.evictor.state.facts, run.evictor.nodes
    chosen: set[int] = set()
    kinds: list[Any] = []
    for i in pods:
        kind = _kind(facts.pods[i])
        if kind in kinds:
            continue
        kinds.append(kind)
        matching = {n for n in nodes if facts.tolerated(i)[n] and facts.selected(i)[n]}
        if len(matching) > 1:
            chosen |= matching
    return len(chosen)


def _kind(pod: Pod) -> object:
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
    tolerations = sorted(msgspec.json.encode(each) for each in pod.spec.tolerations or ())
    return tolerations, msgspec.json.encode(required), pod.spec.nodeSelector
