"""The remedies for VolumeBinding and VolumeZone: other claims, smaller ones, other classes, and nodes where a volume is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

import msgspec
import numpy as np

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.volumes import ZONE_KEYS, VolumeClaim
from kubestow.models.documents.placement import Remedy
from kubestow.models.edits.nodes import HOSTNAME
from kubestow.models.kube import quantity
from kubestow.models.kube.objects import Node, NodeSelector, PersistentVolumeClaimSpec, Pod, VolumeResources
from kubestow.models.kube.pod_spec import SELECTED_NODE, named_claims
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners, name
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.remedies import Arguments, Idea, PodEdit, with_spec
from kubestow.solver.rules.volumes.claim_words import fitting_volumes, meant_claims, meant_classes, storage_class
from kubestow.solver.rules.volumes.claims import claims_of

#: Maximum number of nodes to copy that are tried for a claim.
_MAX_TRIALS = 2
#: End of the label keys of zones, such as ``topology.ebs.csi.aws.com/zone``.
_ZONE = "/zone"
_change = msgspec.structs.replace


def _mounted(pod: Pod, arguments: Arguments) -> Pod:
    """Return the pod with another claim in its volumes."""
    volumes = []
    for volume in pod.spec.volumes or ():
        source = volume.persistentVolumeClaim
        if source is not None and f"{pod.metadata.namespace or 'default'}/{source.claimName}" == arguments["claim"]:
            volume = _change(volume, persistentVolumeClaim=_change(source, claimName=arguments["to"]))
        volumes.append(volume)
    return with_spec(pod, volumes=volumes)


def _smaller(snapshot: Snapshot, _: Collection[int], arguments: Arguments) -> Snapshot:
    """Return the snapshot with a smaller request of a claim."""
    claim = snapshot.persistent_volume_claims[arguments["claim"]]
    resources = VolumeResources({"storage": arguments["to"]})
    smaller = _change(claim, spec=_change(claim.spec or PersistentVolumeClaimSpec(), resources=resources))
    return replace(snapshot, persistent_volume_claims={**snapshot.persistent_volume_claims, arguments["claim"]: smaller})


def _of_class(snapshot: Snapshot, _: Collection[int], arguments: Arguments) -> Snapshot:
    """Return the snapshot with a claim of another StorageClass."""
    claim = snapshot.persistent_volume_claims[arguments["claim"]]
    other = _change(claim, spec=_change(claim.spec or PersistentVolumeClaimSpec(), storageClassName=arguments["to"]))
    return replace(snapshot, persistent_volume_claims={**snapshot.persistent_volume_claims, arguments["claim"]: other})


def _anywhere(snapshot: Snapshot, _: Collection[int], arguments: Arguments) -> Snapshot:
    """Return the snapshot with a StorageClass that provisions everywhere."""
    wide = _change(snapshot.storage_classes[arguments["class"]], allowedTopologies=None)
    return replace(snapshot, storage_classes={**snapshot.storage_classes, arguments["class"]: wide})


def _unselected(snapshot: Snapshot, _: Collection[int], arguments: Arguments) -> Snapshot:
    """Return the snapshot with a claim that has no selected node."""
    claim = snapshot.persistent_volume_claims[arguments["claim"]]
    annotations = {key: value for key, value in (claim.metadata.annotations or {}).items() if key != SELECTED_NODE}
    free = _change(claim, metadata=_change(claim.metadata, annotations=annotations or None))
    return replace(snapshot, persistent_volume_claims={**snapshot.persistent_volume_claims, arguments["claim"]: free})


class BindingRemedies(Rule):
    """Changes of claims and classes, and nodes where a volume is or can be created."""

    pod_changes = {"correctClaim": PodEdit(_mounted, new_pods_only=True)}
    snapshot_changes = {
        "lowerClaimRequest": _smaller,
        "correctStorageClass": _of_class,
        "dropAllowedTopologies": _anywhere,
        "clearSelectedNode": _unselected,
    }

    @classmethod
    def corrections(cls, cluster: Cluster) -> Iterator[Idea]:
        for remedy in (*_other_claims(cluster), *_other_classes(cluster)):
            yield Idea(cls.name, 0, remedy)

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        for claim in _claims(cluster):
            for size, remedy in _of_claim(cluster, claim):
                yield Idea(cls.name, size, remedy)
        for remedy in _new_nodes(cluster, lambda claim: not claim.binding.any()):
            yield Idea(cls.name, 2, remedy)


class ZoneRemedies(Rule):
    """Nodes in the zone of a volume."""

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        for remedy in _new_nodes(cluster, lambda claim: bool(claim.binding.any()) and not claim.zone.any()):
            yield Idea(cls.name, 2, remedy)


def _claims(cluster: Cluster) -> list[VolumeClaim]:
    """Return the distinct claims of the pending pods."""
    return list({claim.key: claim for g in range(cluster.n_classes) for claim in claims_of(cluster, g)}.values())


def _other_claims(cluster: Cluster) -> Iterator[Remedy]:
    """Yield claims with a similar name instead of those that do not exist."""
    pods = cluster.snapshot.pods
    for owner, indices in PodOwners(cluster.snapshot).group(cluster.scope.pending).items():
        for key in dict.fromkeys(key for i in indices for key in named_claims(pods[i])):
            for meant in meant_claims(cluster.snapshot, key):
                words = f"mount claim {meant} instead of {key.partition('/')[2]} in {name(owner)}"
                yield Remedy("correctClaim", words, {"workload": owner, "claim": key, "to": meant})


def _other_classes(cluster: Cluster) -> Iterator[Remedy]:
    """Yield StorageClasses with a similar name instead of those that do not exist."""
    for claim in _claims(cluster):
        wanted, meant = meant_classes(cluster.snapshot, claim.key)
        for each in meant:
            words = f"use StorageClass {each} instead of {wanted} in claim {claim.key} (create it again)"
            yield Remedy("correctStorageClass", words, {"claim": claim.key, "from": wanted, "to": each})


def _of_claim(cluster: Cluster, claim: VolumeClaim) -> Iterator[tuple[int, Remedy]]:
    """Yield the changes of an unbound claim, or of its class, each with a size of the loss."""
    raw = cluster.snapshot.persistent_volume_claims.get(claim.key)
    if raw is None or raw.spec is None or raw.spec.volumeName or not claim.delayed:
        return
    selected = (raw.metadata.annotations or {}).get(SELECTED_NODE)
    if selected is not None:
        words = f"remove the annotation {SELECTED_NODE}={selected} from claim {claim.key}"
        yield 1, Remedy("clearSelectedNode", words, {"claim": claim.key, "node": selected})
    most = max(fitting_volumes(cluster.snapshot, raw.spec), default=0)
    if 0 < most < claim.size:
        asked, less = quantity.format_bytes(claim.size), quantity.format_bytes(most)
        arguments = {"claim": claim.key, "from": str(claim.size), "to": str(most)}
        yield 3, Remedy("lowerClaimRequest", f"request {less} instead of {asked} in claim {claim.key} (create it again)", arguments)
    storage = storage_class(cluster.snapshot, raw.spec)
    if storage is not None and storage.allowedTopologies and claim.provision is not None:
        words = f"drop allowedTopologies from StorageClass {storage.metadata.name} (create it again)"
        yield 6, Remedy("dropAllowedTopologies", words, {"class": storage.metadata.name or ""})


def _new_nodes(cluster: Cluster, nowhere: Callable[[VolumeClaim], bool]) -> Iterator[Remedy]:
    """Yield copies of nodes with the labels that the volumes of pods require.

    Args:
        nowhere: Returns True if a rule admits pods with a claim on no node.
    """
    tried: set[tuple[str, str]] = set()
    for g in range(cluster.n_classes):
        required = [labels for claim in claims_of(cluster, g) if nowhere(claim) and (labels := _labels(cluster, claim))]
        wanted: dict[str, str] = {}
        if not required or any(wanted.setdefault(key, value) != value for labels in required for key, value in labels.items()):
            continue
        large = np.flatnonzero((cluster.allocatable >= cluster.demand[g]).all(axis=1)).tolist()
        sizes = {tuple(cluster.allocatable[n].tolist()): n for n in reversed(large)}
        for _, n in sorted(sizes.items())[:_MAX_TRIALS]:
            labels = {**_other_zones(cluster.snapshot.nodes[n], wanted), **wanted}
            like, text = cluster.nodes.names[n], ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
            if (like, text) not in tried:
                tried.add((like, text))
                message = f"add 1 node like {like} with {text.replace(',', ', ')}"
                yield Remedy("addNodes", message, {"count": "1", "like": like, "labels": text}, ["--add-nodes", f"1:{like},{text}"])


def _other_zones(node: Node, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the zone labels of a node under other keys, with the zone of the wanted labels. A driver has a key of its own."""
    zones = {value for key, value in wanted.items() if key.endswith(_ZONE)}
    return dict.fromkeys((key for key in node.metadata.labels or {} if key.endswith(_ZONE)), zones.pop()) if len(zones) == 1 else {}


def _labels(cluster: Cluster, claim: VolumeClaim) -> dict[str, str]:
    """Return labels of a node that the volume of a claim accepts; empty if a new node cannot have them."""
    snapshot = cluster.snapshot
    raw = snapshot.persistent_volume_claims.get(claim.key)
    spec = raw.spec if raw is not None else None
    labels: dict[str, str] = {}
    if spec is not None and spec.volumeName in snapshot.persistent_volumes:
        volume = snapshot.persistent_volumes[spec.volumeName]
        labels = {key: value.split("__")[0] for key, value in (volume.metadata.labels or {}).items() if key in ZONE_KEYS}
        affinity = volume.spec.nodeAffinity if volume.spec is not None else None
        labels |= _of_selector(affinity.required) if affinity is not None and affinity.required is not None else {}
    elif spec is not None and claim.delayed and claim.provision is not None and (storage := storage_class(snapshot, spec)) is not None:
        expressions = (e for term in (storage.allowedTopologies or [])[:1] for e in term.matchLabelExpressions or ())
        labels = {each.key: each.values[0] for each in expressions if each.values}
    return {} if HOSTNAME in labels else labels


def _of_selector(selector: NodeSelector) -> dict[str, str]:
    """Return the first value of each label that the first alternative of a selector requires."""
    terms = selector.nodeSelectorTerms or []
    return {r.key: r.values[0] for term in terms[:1] for r in term.matchExpressions or () if r.operator == "In" and r.values}
