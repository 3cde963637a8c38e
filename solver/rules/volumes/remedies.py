"""The remedies for the volume rules: claims and StorageClasses whose names are misspelt."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import msgspec

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.near_misses import counted, near_miss
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube.lenient_decode import nearest
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.pod_spec import claim_keys, named_claims
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners, name
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.remedies import Arguments, Idea, PodEdit, with_spec


def meant_claims(snapshot: Snapshot, key: str) -> list[str]:
    """Return the claims (``namespace/name``) that may be meant by one that does not exist."""
    namespace, _, wanted = key.partition("/")
    known = [each.partition("/")[2] for each in snapshot.persistent_volume_claims if each.startswith(f"{namespace}/")]
    return [f"{namespace}/{each}" for each in nearest(wanted, known)]


def missing_claim(snapshot: Snapshot, key: str) -> str:
    """Return a clause on a claim that does not exist, with those that may be meant."""
    claims, wanted = snapshot.persistent_volume_claims, key.partition("/")[2]
    meant = []
    for each in meant_claims(snapshot, key):
        spec = claims[each].spec
        meant.append(f"{each} ({'bound' if spec is not None and spec.volumeName else 'not bound'})")
    elsewhere = [f"{each} (in another namespace)" for each in sorted(claims) if each.partition("/")[2] == wanted]
    missing = f"claim {key} does not exist"
    return near_miss(missing, meant or elsewhere[:2]) or missing


def meant_classes(snapshot: Snapshot, key: str) -> tuple[str, list[str]]:
    """Return the StorageClass of an unbound claim, and those that may be meant if it does not exist."""
    claim = snapshot.persistent_volume_claims.get(key)
    wanted = claim.spec.storageClassName if claim is not None and claim.spec is not None and not claim.spec.volumeName else None
    if not wanted or wanted in snapshot.storage_classes:
        return wanted or "", []
    return wanted, nearest(wanted, snapshot.storage_classes)


def missing_class(snapshot: Snapshot, key: str) -> str:
    """Return a clause on the StorageClass of a claim if it does not exist and others may be meant."""
    wanted, meant = meant_classes(snapshot, key)
    specs = [claim.spec for claim in snapshot.persistent_volume_claims.values() if claim.spec is not None]
    uses = {each: sum(spec.storageClassName == each for spec in specs) for each in meant}
    return near_miss(f"StorageClass {wanted} does not exist", (f"{each} ({counted(n, 'claim')})" for each, n in uses.items()))


def _corrected_claim(pod: Pod, arguments: Arguments) -> Pod:
    if arguments["claim"] not in named_claims(pod):
        return pod
    wrong, meant = (arguments[key].partition("/")[2] for key in ("claim", "to"))
    volumes = [
        msgspec.structs.replace(volume, persistentVolumeClaim=msgspec.structs.replace(volume.persistentVolumeClaim, claimName=meant))
        if volume.persistentVolumeClaim is not None and volume.persistentVolumeClaim.claimName == wrong
        else volume
        for volume in pod.spec.volumes or ()
    ]
    return with_spec(pod, volumes=volumes)


def _corrected_class(snapshot: Snapshot, _: Collection[int], arguments: Arguments) -> Snapshot:
    claims = dict(snapshot.persistent_volume_claims)
    claim = claims[arguments["claim"]]
    spec = msgspec.structs.replace(claim.spec, storageClassName=arguments["to"]) if claim.spec is not None else None
    claims[arguments["claim"]] = msgspec.structs.replace(claim, spec=spec)
    return replace(snapshot, persistent_volume_claims=claims)


class ClaimRemedies(Rule):
    """Names of claims and StorageClasses to correct. All volume rules have them, because a cause names one of these rules."""

    pod_changes = {"correctClaim": PodEdit(_corrected_claim)}
    snapshot_changes = {"correctStorageClass": _corrected_class}

    @classmethod
    def corrections(cls, cluster: Cluster) -> Iterator[Idea]:
        snapshot = cluster.snapshot
        for owner, pods in PodOwners(snapshot).group(cluster.scope.pending).items():
            for key in dict.fromkeys(key for i in pods for key in claim_keys(snapshot.pods[i])):
                wanted, classes = meant_classes(snapshot, key)
                for each in classes:
                    message = f"create claim {key} with StorageClass {each} instead of {wanted}"
                    yield Idea(cls.name, 0, Remedy("correctStorageClass", message, {"claim": key, "to": each}))
                if key in snapshot.persistent_volume_claims or not any(key in named_claims(snapshot.pods[i]) for i in pods):
                    continue
                for each in meant_claims(snapshot, key):
                    message = f"mount claim {each} instead of {key} in {name(owner)}"
                    yield Idea(cls.name, 0, Remedy("correctClaim", message, {"workload": owner, "claim": key, "to": each}))
