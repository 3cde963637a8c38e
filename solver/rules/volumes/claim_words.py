"""Claims and volumes in words: why a claim keeps its pods off nodes, for VolumeBinding and VolumeZone.

Short reasons (:func:`reason`) read only the claim and its volume. Details (:func:`details`) may read all volumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.cluster.near_misses import counted, question
from kubestow.models.cluster.storage.migrated_volumes import plugin_of
from kubestow.models.cluster.volumes import VolumeClaim
from kubestow.models.kube import quantity
from kubestow.models.kube.lenient_decode import nearest
from kubestow.models.kube.objects import NodeSelector, NodeSelectorRequirement, PersistentVolumeClaimSpec
from kubestow.models.kube.pod_spec import NO_PROVISIONER, SELECTED_NODE, named_claims
from kubestow.models.kube.selectors import canonical, selector_matches
from kubestow.models.kube.storage_objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.rules.wording import MAX_NAMES, listed

#: How each operator of a node selector is written, except In and NotIn.
_OPERATORS = {"Exists": "{key}", "DoesNotExist": "!{key}", "Gt": "{key} > {values}", "Lt": "{key} < {values}"}


def reason(cluster: Cluster, claim: VolumeClaim) -> str:
    """Return why VolumeBinding rejects nodes for a claim, as a clause without numbers of nodes."""
    snapshot, key = cluster.snapshot, claim.key
    raw = snapshot.persistent_volume_claims.get(key)
    if raw is None or raw.spec is None:
        return f"claim {key} does not exist" if raw is None else f"claim {key} has no spec"
    volume = raw.spec.volumeName
    if raw.metadata.deletionTimestamp is not None:
        return f"claim {key} is being deleted"
    if raw.status is not None and raw.status.phase == "Lost":
        return f"claim {key} has lost its volume{f' {volume}' if volume else ''}"
    if volume:
        return _of_volume(snapshot, key, volume)
    if not claim.delayed:
        return _waiting(snapshot, key, raw.spec.storageClassName)
    selected = (raw.metadata.annotations or {}).get(SELECTED_NODE)
    if selected is not None:
        gone = "" if selected in cluster.nodes.names else ", which is not in the cluster"
        return f"the volume of claim {key} is being created for node {selected}{gone}"
    if not claim.volumes and not _provisioned(storage_class(snapshot, raw.spec)):
        return f"no free volume of class {raw.spec.storageClassName} fits claim {key}"
    return f"claim {key} is not bound yet and needs {_candidates(cluster, claim, raw.spec)}"


def details(cluster: Cluster, claim: VolumeClaim) -> str:
    """Return the reason and hints: similar names, sizes and nodes of free volumes, and the controller that acts next."""
    snapshot, key = cluster.snapshot, claim.key
    raw = snapshot.persistent_volume_claims.get(key)
    spec = raw.spec if raw is not None else None
    if raw is None or spec is None:
        return reason(cluster, claim) + (_absent(cluster, key) if raw is None else "")
    if _is_ending(raw) or spec.volumeName:
        return reason(cluster, claim)
    storage, name = storage_class(snapshot, spec), spec.storageClassName
    if claim.delayed:
        alone = not claim.volumes and not _provisioned(storage)
        return shortage(cluster, claim, spec) if alone else reason(cluster, claim)
    words = reason(cluster, claim)
    if name and storage is None:
        specs = [each.spec for each in snapshot.persistent_volume_claims.values() if each.spec is not None]
        uses = {each: sum(spec.storageClassName == each for spec in specs) for each in meant_classes(snapshot, key)[1]}
        words += _asked(f"{each} ({counted(n, 'claim')})" for each, n in uses.items())
    elif not _provisioned(storage) and any(_of_class(snapshot, spec)):
        words += f" ({shortage(cluster, claim, spec)})"
    return f"{words}; kube-scheduler does nothing until it is bound"


def is_first(cluster: Cluster, claim: VolumeClaim) -> bool:
    """Return True if an object is missing, or if a controller has to act before kube-scheduler considers the pods."""
    raw = cluster.snapshot.persistent_volume_claims.get(claim.key)
    if raw is None or raw.spec is None or _is_ending(raw):
        return True
    if raw.spec.volumeName:
        return raw.spec.volumeName not in cluster.snapshot.persistent_volumes
    return not claim.delayed


def _is_ending(claim: PersistentVolumeClaim) -> bool:
    return claim.metadata.deletionTimestamp is not None or (claim.status is not None and claim.status.phase == "Lost")


def storage_class(snapshot: Snapshot, spec: PersistentVolumeClaimSpec) -> StorageClass | None:
    """Return the StorageClass of a claim, if it has one that exists."""
    return snapshot.storage_classes.get(spec.storageClassName) if spec.storageClassName else None


def _provisioned(storage: StorageClass | None) -> bool:
    return storage is not None and bool(storage.provisioner) and storage.provisioner != NO_PROVISIONER


def _absent(cluster: Cluster, key: str) -> str:
    """Return a hint for a claim that does not exist: a similar name, or the controller that creates it."""
    users = [cls.pod for cls in cluster.classes if key in cls.claims]
    if users and all(key not in named_claims(pod) for pod in users):
        return " yet; the controller for ephemeral volumes creates it"
    namespace, _, name = key.partition("/")
    claims = cluster.snapshot.persistent_volume_claims
    specs = ((each, claims[f"{namespace}/{each}"].spec) for each in meant_claims(cluster.snapshot, key))
    near = _asked(f"{each} ({'bound' if spec is not None and spec.volumeName else 'not bound'})" for each, spec in specs)
    elsewhere = listed(sorted(space for space, _, own in (each.partition("/") for each in claims) if own == name))
    return near or (f" in this namespace, only in {elsewhere}" if elsewhere else "")


def meant_claims(snapshot: Snapshot, key: str) -> list[str]:
    """Return the names of the claims that may be meant by one that does not exist; none for a claim that exists."""
    namespace, _, wanted = key.partition("/")
    claims = snapshot.persistent_volume_claims
    known = [name for space, _, name in (each.partition("/") for each in claims) if space == namespace]
    return [] if key in claims else nearest(wanted, known)


def meant_classes(snapshot: Snapshot, key: str) -> tuple[str, list[str]]:
    """Return the StorageClass of an unbound claim, and those that may be meant if it does not exist."""
    claim = snapshot.persistent_volume_claims.get(key)
    wanted = claim.spec.storageClassName if claim is not None and claim.spec is not None and not claim.spec.volumeName else None
    if not wanted or wanted in snapshot.storage_classes:
        return wanted or "", []
    return wanted, nearest(wanted, snapshot.storage_classes)


def _asked(meant: Iterable[str]) -> str:
    """Return ``: did you mean A or B?``; without any suggestion, an empty text."""
    asked = question(meant)
    return f": {asked}" if asked else ""


# --- bound and immediate claims ---------------------------------------------------------------------------------------


def _of_volume(snapshot: Snapshot, key: str, name: str) -> str:
    volume = snapshot.persistent_volumes.get(name)
    if volume is None:
        return f"claim {key} is bound to PersistentVolume {name}, which does not exist"
    required = volume.spec.nodeAffinity.required if volume.spec is not None and volume.spec.nodeAffinity is not None else None
    if required is None or plugin_of(volume) is not None:  # the topology of the CSI driver applies to migrated volumes
        return f"PersistentVolume {name} (claim {key}) can be used only in its zone"
    return f"PersistentVolume {name} (claim {key}) can be used only where {where(required)}"


def _waiting(snapshot: Snapshot, key: str, name: str | None) -> str:
    """Return the reason of an unbound claim that is not bound by the scheduler."""
    storage = snapshot.storage_classes.get(name) if name else None
    if name is None:
        return f"claim {key} is not bound and has no StorageClass: it waits for a default class or a PersistentVolume that fits"
    if not name:
        return f"claim {key} waits for a PersistentVolume without a class"
    if storage is None:
        return f"claim {key} is not bound, and its StorageClass {name} does not exist"
    if _provisioned(storage):
        return f"claim {key} waits for its provisioner {storage.provisioner} (StorageClass {name} binds immediately)"
    return f"claim {key} waits for a PersistentVolume of class {name}, which provisions none"


# --- claims that wait for their first consumer ------------------------------------------------------------------------


def _candidates(cluster: Cluster, claim: VolumeClaim, spec: PersistentVolumeClaimSpec) -> str:
    """Return the volumes that an unbound claim can take."""
    storage = storage_class(cluster.snapshot, spec)
    several = "one of the volumes" if len(claim.volumes) > 1 else "the volume"
    shown = MAX_NAMES + 1  # the others are only counted
    names = listed([*(_at(cluster, volume) for volume in claim.volumes[:shown]), *claim.volumes[shown:]])
    static = f"{several} {names}" if claim.volumes else ""
    if storage is None or not _provisioned(storage):
        return static
    limits = [[(e.key, e.values or []) for e in term.matchLabelExpressions or ()] for term in storage.allowedTopologies or ()]
    places = " or ".join(dict.fromkeys(", ".join(_in(key, values) for key, values in term) for term in limits))
    new = "a new volume" + (f", which StorageClass {spec.storageClassName} provisions only where {places}" if places else "")
    return f"{static}, or {new}" if static else new


def shortage(cluster: Cluster, claim: VolumeClaim, spec: PersistentVolumeClaimSpec) -> str:
    """Return why no PersistentVolume serves an unbound claim whose class provisions none."""
    snapshot, key = cluster.snapshot, claim.key
    whose = f"of class {spec.storageClassName}" if spec.storageClassName else "without a class"
    volumes = dict(_of_class(snapshot, spec))
    if not volumes:
        return f"claim {key} needs a PersistentVolume {whose}, and there is none"
    free = {name: volume for name, volume in volumes.items() if _is_free(volume)}
    if not free:
        return f"claim {key} needs a free PersistentVolume {whose}: {listed(_taken(name, v) for name, v in volumes.items())}"
    for words, test in _tests(spec):
        fitting = {name: volume for name, volume in free.items() if test(volume)}
        if not fitting:
            return f"claim {key}: no free volume {whose} has {words} ({listed(free)})"
        free = fitting
    name = max(free, key=lambda name: (volume_size(free[name]), name))
    size = quantity.units(((spec.resources.requests if spec.resources else None) or {}).get("storage", 0))
    if volume_size(free[name]) >= size:
        return f"claim {key}: no free volume {whose} fits ({listed(free)})"
    asked, most = quantity.format_bytes(size), quantity.format_bytes(volume_size(free[name]))
    return f"claim {key} asks for {asked}; the largest free volume {whose} is {name}, {most}{_on(cluster, name)}"


def fitting_volumes(snapshot: Snapshot, spec: PersistentVolumeClaimSpec) -> list[int]:
    """Return the sizes in bytes of the free volumes that would serve a claim if it asked for less."""
    volumes = (volume for _, volume in _of_class(snapshot, spec) if _is_free(volume))
    return [volume_size(volume) for volume in volumes if all(test(volume) for _, test in _tests(spec))]


def _tests(spec: PersistentVolumeClaimSpec) -> list[tuple[str, Callable[[PersistentVolume], bool]]]:
    """Return the requirements of a claim on a volume besides class and size: each in words, and as a test."""
    mode, modes, selector = spec.volumeMode or "Filesystem", set(spec.accessModes or ()), canonical(spec.selector)
    return [
        (f"volumeMode {mode}", lambda v: ((v.spec.volumeMode if v.spec else None) or "Filesystem") == mode),
        (f"access mode {', '.join(sorted(modes))}", lambda v: modes <= set((v.spec.accessModes if v.spec else None) or ())),
        ("the labels of its selector", lambda v: spec.selector is None or selector_matches(selector, v.metadata.labels or {})),
    ]


def volume_size(volume: PersistentVolume) -> int:
    """Return the capacity of a volume in bytes."""
    return quantity.units(((volume.spec.capacity if volume.spec else None) or {}).get("storage", 0))


def _of_class(snapshot: Snapshot, spec: PersistentVolumeClaimSpec) -> Iterator[tuple[str, PersistentVolume]]:
    """Yield the volumes of a claim's class by name."""
    for name, volume in sorted(snapshot.persistent_volumes.items()):
        if volume.spec is not None and (volume.spec.storageClassName or "") == (spec.storageClassName or ""):
            yield name, volume


def _is_free(volume: PersistentVolume) -> bool:
    claimed = volume.spec is not None and volume.spec.claimRef is not None
    return not claimed and volume.metadata.deletionTimestamp is None and volume.status is not None and volume.status.phase == "Available"


def _taken(name: str, volume: PersistentVolume) -> str:
    of = volume.spec.claimRef if volume.spec else None
    phase = (volume.status.phase if volume.status is not None else None) or "not available"
    if phase == "Bound" and of is not None:
        return f"{name} belongs to {of.namespace or 'default'}/{of.name}"
    return f"{name} is {phase}" + (f", of {of.namespace or 'default'}/{of.name}" if of is not None else "")


# --- places -----------------------------------------------------------------------------------------------------------


def _at(cluster: Cluster, volume: str) -> str:
    """Return a volume with its node if only one reaches it."""
    return volume + (f" ({node})" if (node := _only_node(cluster, volume)) else "")


def _on(cluster: Cluster, volume: str) -> str:
    return f" on {node}" if (node := _only_node(cluster, volume)) else ""


def _only_node(cluster: Cluster, volume: str) -> str | None:
    reach = cluster.volumes.reach(volume)
    return cluster.nodes.names[int(reach.argmax())] if int(reach.sum()) == 1 else None


def where(selector: NodeSelector) -> str:
    """Return the labels that a node selector requires."""
    terms = (", ".join(map(_requirement, (*(t.matchExpressions or ()), *(t.matchFields or ())))) for t in selector.nodeSelectorTerms or ())
    return " or ".join(dict.fromkeys(terms))


def _requirement(requirement: NodeSelectorRequirement) -> str:
    key, values = requirement.key, requirement.values or []
    if requirement.operator == "In":
        return _in(key, values)
    if requirement.operator == "NotIn":
        return f"{key} not in ({listed(values)})"
    return _OPERATORS.get(requirement.operator, "{key} " + requirement.operator).format(key=key, values=", ".join(values))


def _in(key: str, values: list[str]) -> str:
    return f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({listed(values)})"
