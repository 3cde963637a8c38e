"""The strategy RemoveDuplicates: pods of one owner with the same images are to be on different nodes.

Source: https://github.com/kubernetes-sigs/descheduler, pkg/framework/plugins/removeduplicates/removeduplicates.go.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from kubestow.audit.descheduler.arguments import Duplicates
from kubestow.audit.descheduler.turn import Turn
from kubestow.models.kube.objects import Pod

#: Namespace, kind and name of an owner, and the sorted images.
_Owner = tuple[str, str, str, tuple[str, ...]]


def duplicates(turn: Turn, args: Duplicates) -> None:
    """Evict what a node has of an owner beyond the average over the nodes that could have it, rounded up; nothing where fewer than two
    could."""
    found, occurrences = _find(turn, args)
    for owner, by_node in found.items():
        targets = _targets(turn, [i for pods in by_node.values() for i in pods])
        name = f"{owner[1]} {owner[0]}/{owner[2]}"
        if targets < 2:
            turn.notes.append(f"{name}: fewer than two nodes could have its pods")
            continue
        average = -(-occurrences[owner] // targets)
        for n, pods in by_node.items():
            for i in pods[average - 1 :]:  # the first one of a node is no duplicate, and is not among them
                answer = turn.evict(i, n, f"{len(pods) + 1} pods of {name} are on its node, {average} would be even")
                if answer == "node limit":
                    break
                if answer == "total limit":
                    return


def _find(turn: Turn, args: Duplicates) -> tuple[dict[_Owner, dict[int, list[int]]], Counter[_Owner]]:
    """Return, by owner and node, the pods beside a first one that are equal to it, and how many pods each owner has in all."""
    evictor = turn.evictor
    pods = evictor.world.facts.pods
    found: dict[_Owner, dict[int, list[int]]] = {}
    occurrences: Counter[_Owner] = Counter()
    for n in evictor.nodes:
        seen: set[tuple[_Owner, ...]] = set()
        for i in evictor.world.on(n):
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


def _targets(turn: Turn, pods: list[int]) -> int:
    """Return how many nodes could have such pods. Pods that differ in tolerations or in what they ask of nodes are looked at one by one,
    and those that only one node could have count for nothing."""
    facts, nodes = turn.evictor.world.facts, turn.evictor.nodes
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
