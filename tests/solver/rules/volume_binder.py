"""Tiny clusters whose pods share claims, and a brute force over what the volume binder can do with them.

The brute force replays the binder (volumebinding/binder.go, FindPodVolumes and AssumePodVolumes) over every order of the pods and every
choice of nodes. It shares no code with the rules.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.objects import Object, node, pod

HOST = "kubernetes.io/hostname"
#: Claim, its volume ("" for one that is being provisioned), and the node of the first pod that uses it.
Binding = tuple[str, str, str]


@dataclass(frozen=True)
class Volume:
    """A PersistentVolume. ``reach``: nodes of its node affinity; ``csi``: the driver has it; ``reserved``: the claim of its claimRef."""

    name: str
    storage: str
    size: int
    reach: frozenset[str]
    label: str
    csi: bool
    reserved: str | None = None


@dataclass(frozen=True)
class Claim:
    """A PersistentVolumeClaim. ``provision``: nodes where a new volume may be made; ``label``: of its selector."""

    name: str
    storage: str
    mode: str
    size: int
    provision: frozenset[str]
    selected: str | None
    label: str | None
    bound: str | None


@dataclass
class Tiny:
    """A cluster. ``room``: pods of each node; ``limits``: volumes of the driver that a node attaches, if it has a limit; ``pods``: the
    claims of each pod; ``pinned``: the nodes of each pod."""

    room: dict[str, int]
    limits: dict[str, int] = field(default_factory=dict)
    volumes: list[Volume] = field(default_factory=list)
    claims: dict[str, Claim] = field(default_factory=dict)
    pods: dict[str, list[str]] = field(default_factory=dict)
    pinned: dict[str, frozenset[str]] = field(default_factory=dict)

    def most(self) -> int:
        """Return the most pods that any course of the scheduler places."""
        self._seen: dict[tuple[frozenset[str], tuple[tuple[str, ...], ...], frozenset[Binding]], int] = {}
        return self._most(frozenset(self.pods), tuple(() for _ in self.room), frozenset())

    def _most(self, waiting: frozenset[str], there: tuple[tuple[str, ...], ...], chosen: frozenset[Binding]) -> int:
        """``there``: the pods of each node."""
        state = waiting, there, chosen
        if state not in self._seen:
            best = 0
            for name in sorted(waiting):
                for i, n in enumerate(self.room):
                    if best == len(waiting) or len(there[i]) == self.room[n] or n not in self.pinned[name]:
                        continue
                    picked = self.bind(name, n, chosen)
                    if picked is not None and self.attaches(name, n, there[i], chosen):
                        after = (*there[:i], tuple(sorted((*there[i], name))), *there[i + 1 :])
                        best = max(best, 1 + self._most(waiting - {name}, after, chosen | picked))
            self._seen[state] = best
        return self._seen[state]

    def attaches(self, name: str, n: str, there: tuple[str, ...], chosen: frozenset[Binding]) -> bool:
        """Return True if a node has room for the volumes of one more pod. A claim that no pod has used counts for its provisioner."""
        if n not in self.limits:
            return True
        attached = {each for other in there for each in self._handles(other, chosen)}
        new = self._handles(name, chosen) - attached
        return not new or len(attached) + len(new) <= self.limits[n]

    def _handles(self, name: str, chosen: frozenset[Binding]) -> set[str]:
        volumes = {claim: volume for claim, volume, _ in chosen}
        volumes |= {claim.name: claim.bound for claim in self.claims.values() if claim.bound is not None}
        csi = {volume.name for volume in self.volumes if volume.csi}
        found = {volumes.get(each) or (f"claim {each}" if self.claims[each].storage == "new" else "") for each in self.pods[name]}
        return {each for each in found if each in csi or each.startswith("claim")}

    def bind(self, name: str, there: str, chosen: frozenset[Binding]) -> frozenset[Binding] | None:
        """Return the volumes that the open claims of a pod take on a node; None if the node is rejected."""
        known = {claim: (volume, first) for claim, volume, first in chosen}
        reach = {volume.name: volume.reach for volume in self.volumes}
        used = {volume for _, volume, _ in chosen}
        found: set[Binding] = set()
        for claim in sorted((self.claims[each] for each in self.pods[name]), key=lambda each: each.size):
            if claim.bound is not None:
                fine = there in reach[claim.bound]
            elif claim.name in known:
                volume, first = known[claim.name]
                # The node of a new volume is that of the first pod. A volume for several nodes is assumed to reach all nodes.
                alone = claim.mode == "ReadWriteOnce" and there != first
                fine = there in reach[volume] if volume else there in claim.provision and not alone and claim.selected in (None, there)
            else:
                picked = None if claim.selected else self._matching(claim, there, used)
                fine = picked is not None or (there in claim.provision and claim.selected in (None, there))
                used.add(picked or "")
                found.add((claim.name, picked or "", there))
            if not fine:
                return None
        return frozenset(found)

    def _matching(self, claim: Claim, there: str, used: set[str]) -> str | None:
        """Return the smallest volume that fits the claim on a node; one that is reserved for the claim goes first."""
        found = [v for v in self.volumes if v.name not in used and v.storage == claim.storage and v.size >= claim.size]
        mine = [v for v in found if v.reserved == claim.name]
        if mine:
            return mine[0].name if there in mine[0].reach else None
        free = [v for v in found if v.reserved is None and there in v.reach and claim.label in (None, v.label)]
        return min(free, key=lambda v: (v.size, v.name)).name if free else None

    def objects(self) -> list[Object]:
        """Return the API objects of the cluster."""
        made = [node(name, cpu=str(slots)) for name, slots in self.room.items()]
        provisioned = next((sorted(c.provision) for c in self.claims.values() if c.storage == "new"), [])
        for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("new", "csi.example.com")):
            made.append(
                {
                    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner,
                    "volumeBindingMode": "WaitForFirstConsumer",
                    "allowedTopologies": [{"matchLabelExpressions": [{"key": HOST, "values": provisioned}]}] if name == "new" else [],
                }
            )  # fmt: skip
        for name, limit in self.limits.items():
            drivers = [{"name": "csi.example.com", "nodeID": name, "allocatable": {"count": limit}}]
            made.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}})
        made += [_volume_object(volume) for volume in self.volumes] + [_claim_object(claim) for claim in self.claims.values()]
        for name, claims in self.pods.items():
            mounts = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": each}} for i, each in enumerate(claims)]
            only = {HOST: min(self.pinned[name])} if len(self.pinned[name]) == 1 else None
            made.append(pod(name, cpu="1", volumes=mounts, selector=only))
        return made


def _volume_object(volume: Volume) -> Object:
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": sorted(volume.reach)}]}]
    more: Object = {} if volume.reserved is None else {"claimRef": {"namespace": "default", "name": volume.reserved}}
    more |= {"csi": {"driver": "csi.example.com", "volumeHandle": volume.name}} if volume.csi else {"local": {"path": "/data"}}
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume.name, "labels": {"tier": volume.label}},
        "spec": {
            "capacity": {"storage": f"{volume.size}Gi"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "storageClassName": volume.storage, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, **more,
        },
        "status": {"phase": "Available"},
    }  # fmt: skip


def _claim_object(claim: Claim) -> Object:
    spec: Object = {
        "accessModes": [claim.mode], "storageClassName": claim.storage, "resources": {"requests": {"storage": f"{claim.size}Gi"}},
    }  # fmt: skip
    if claim.bound is not None:
        spec["volumeName"] = claim.bound
    if claim.label is not None:
        spec["selector"] = {"matchLabels": {"tier": claim.label}}
    annotations = {} if claim.selected is None else {"volume.kubernetes.io/selected-node": claim.selected}
    metadata = {"name": claim.name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def tiny(seed: int, *, limited: bool = False) -> Tiny:
    """Return a cluster of two or three nodes, with at most four pods, three claims and four free volumes. ``limited``: nodes attach only
    a few volumes of a driver."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.choice((2, 2, 3)))]
    made = Tiny({name: rng.choice((1, 1, 2)) for name in names})
    made.limits = {name: rng.choice((0, 1, 2)) for name in names if limited and rng.random() < 0.6}
    claims = [f"c{i}" for i in range(rng.randint(1, 3))]
    provisioned = frozenset(rng.sample(names, rng.randint(1, len(names))))

    def some() -> frozenset[str]:
        return frozenset(rng.sample(names, rng.choice((1, 1, 2, len(names)))))

    for i in range(rng.randint(0, 4)):
        reserved = rng.choice(claims) if rng.random() < 0.1 else None
        storage = rng.choice(("local", "local", "new"))
        made.volumes.append(Volume(f"pv{i}", storage, rng.choice((1, 1, 2, 3)), some(), rng.choice("ab"), rng.random() < 0.3, reserved))
    for name in claims:
        mode, size, storage = rng.choice(("ReadWriteOnce", "ReadWriteMany")), rng.choice((1, 1, 2)), rng.choice(("local", "local", "new"))
        label = rng.choice("ab") if rng.random() < 0.15 else None
        selected = rng.choice(names) if storage == "new" and rng.random() < 0.2 else None
        bound = f"of-{name}" if selected is None and rng.random() < 0.15 else None
        if bound is not None:
            made.volumes.append(Volume(bound, storage, 3, some(), "a", rng.random() < 0.5, name))
        made.claims[name] = Claim(name, storage, mode, size, provisioned if storage == "new" else frozenset(), selected, label, bound)
    for i in range(rng.randint(2, 4)):
        made.pods[f"p{i}"] = rng.sample(claims, min(len(claims), rng.choice((1, 1, 2))))
        made.pinned[f"p{i}"] = frozenset(rng.sample(names, 1) if rng.random() < 0.2 else names)
    return made
