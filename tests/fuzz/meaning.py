"""Damage that keeps the form of Kubernetes objects: fields get values that are odd, rare or at the edge of the allowed range, and objects
get fields and companions that others have. Much of it is valid, and meets rules that were not made with it in mind."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fuzz.mutate import at, spots
from tests.models.snapshot.test_snapshot_fuzz import sample

Object = dict[str, Any]

QUANTITIES: Final = (
    "0", "-0", "0m", "0.1m", "1n", "100n", "1", "1m", "999m", "1.5", ".5", "1.", "+1", "-1", "1e3", "1E3", "1e30", "1e-30", "9Ei", "8E",
    "1Ki5",
    "1ki", "1 Gi", "", "Gi", "0x10", "1_000", "NaN", "9223372036854775807", "9223372036854775808", "1" * 40, "0.000000001", "1e400", 1, 0,
    -1, 0.5, 1e30, None, "\u0661", "12e6", "1Mi", "3Gi", "1000Ti", "500m", "2",
)  # fmt: skip
_INTS: Final = (0, 1, 2, 3, 5, 50, -1, 2**31 - 1, 2**31, 10**9, 2**63, "1", None)
_SMALL: Final = (0, 1, 2, 3, 4, 7)
_AMOUNTS: Final = (0, 1, 2, "0%", "1%", "34%", "50%", "100%", "101%", "-1%", "1", "50 %", "%", "1.5%", "\u0661%", -1, 2**31, None)
_KEYS: Final = ("zone", "rack", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "disk", "no-such-key", "", "a/b/c", "x" * 400)
_NOTES: Final = (
    "", "a", "c: [c]", "c: [x, y]", "x: [y]\ny: [x]", "[", "c: {", "c: 1", "c: null", "- a", "c: [{}]", "c: [{match: {}}]",
    "c:\n- match: {key: name, operator: Matches, values: ['(a+)+$']}\n  weight: 5",
    "c:\n- match: {key: name, operator: In, values: [c, x, y]}\n  weight: 100000\n  scope: {operator: AlwaysTrue}",
    "c:\n- match: {key: pod/labels/app, operator: Exists}\n  weight: -3\n  scope: {key: pod/namespace, operator: NotIn, values: [x]}",
    "c:\n- match: {key: ':,:pod/name:name', operator: MatchesAny, values: ['*', '[']}\n  weight: 1.5", "&a [*a]", "c: !!python/none x",
)  # fmt: skip


@dataclass
class World:
    """The names that objects use, so that inserted values refer to something."""

    nodes: list[str] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    labels: list[tuple[str, str]] = field(default_factory=list)


def world(objects: list[Any]) -> World:
    """Names in these objects, if they still have the form of objects."""
    found = World()
    for each in objects:
        metadata = each.get("metadata") if isinstance(each, dict) else None
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            continue
        if each.get("kind") in ("Node", "Pod"):
            (found.nodes if each["kind"] == "Node" else found.pods).append(metadata["name"])
        if isinstance(metadata.get("namespace"), str):
            found.namespaces.append(metadata["namespace"])
        if isinstance(metadata.get("labels"), dict):
            found.labels += [(k, v) for k, v in metadata["labels"].items() if isinstance(k, str) and isinstance(v, str)]
    return found


def _selector(rng: random.Random, seen: World) -> Any:
    key, value = rng.choice([*seen.labels, ("app", "a")])
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "in", "", None))
    values = rng.choice(([value], [value, "b"], [], ["1"], None, [None], [value] * 50))
    return rng.choice(
        ({"matchLabels": {key: value}}, {}, None, {"matchExpressions": [{"key": key, "operator": operator, "values": values}]},
         {"matchLabels": {key: value}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]})
    )  # fmt: skip


def _term(rng: random.Random, seen: World) -> Object:
    term: Object = {"topologyKey": rng.choice(_KEYS[:5] if rng.random() < 0.8 else _KEYS), "labelSelector": _selector(rng, seen)}
    if rng.random() < 0.3:
        term["namespaceSelector"] = rng.choice(({}, None, {"matchLabels": {"team": "o"}}, _selector(rng, seen)))
    if rng.random() < 0.2:
        term["namespaces"] = rng.choice(([], ["other", "default"], [""], ["x"] * 30))
    if rng.random() < 0.2:
        term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = rng.choice((["app"], ["tier", "app"], ["app", "app"], [""], []))
    return term


def _spread(rng: random.Random, seen: World) -> Object:
    found: Object = {
        "topologyKey": rng.choice(_KEYS[:4]), "maxSkew": rng.choice((1, 1, 2, 0, 2**31 - 1, 2**31)), "labelSelector": _selector(rng, seen),
        "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway", "Never")),
    }  # fmt: skip
    options = {
        "minDomains": (1, 2, 3, 0, 2**31 - 1, 2**31), "nodeAffinityPolicy": ("Honor", "Ignore", "no"), "nodeTaintsPolicy": ("Honor",
        "Ignore"),
        "matchLabelKeys": (["app"], [], ["pod-template-hash"], ["app", "app"]),
    }  # fmt: skip
    return found | {name: rng.choice(values) for name, values in options.items() if rng.random() < 0.25}


#: Possible values of fields with these names. Callables draw from the names in the objects.
_FIELDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("cpu", "memory", "pods", "storage", "ephemeral-storage", "available", "allocatable", "capacity"), QUANTITIES),
    **dict.fromkeys(("maxUnavailable", "minAvailable", "maxSurge"), _AMOUNTS),
    **dict.fromkeys(("replicas", "parallelism", "completions", "minMember", "count", "minCount"), _INTS),
    **dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods", "observedGeneration"), _INTS),
    **dict.fromkeys(("podAffinityTerm",), _term),
    **dict.fromkeys(("labelSelector", "namespaceSelector", "selector"), _selector),
    "maxSkew": (0, 1, 2, -1, 2**31 - 1, 2**31, "1"), "minDomains": (0, 1, 2, 3, 100, 2**31 - 1, 2**31), "topologyKey": _KEYS,
    "weight": (0, 1, 50, 100, 101, -1, 2**31, "5"), "priority": (0, 1, -1, 2**31 - 1, -(2**31), 2**31, 10**9), "value": (*_SMALL, 2**31,
    "x"),
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "Matches", "in", "", None),
    "values": ([], ["1"], ["a", "b"], [""], None, ["10", "x"], ["a"] * 100), "effect": ("NoSchedule", "NoExecute", "PreferNoSchedule", "",
    "No"),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway", ""), "phase": ("Pending", "Running", "Succeeded", "Failed", "Unknown", "",
    "x"),
    "hostPort": (0, 1, 80, 65535, 65536, -1), "protocol": ("TCP", "UDP", "SCTP", "tcp", ""), "hostIP": ("", "0.0.0.0", "::", "10.0.0.1",
    "x"),
    "accessModes": ([], ["ReadWriteOnce"], ["ReadWriteOncePod"], ["ReadWriteMany"], ["ReadOnlyMany", "ReadWriteOncePod"], ["x"]),
    "volumeBindingMode": ("Immediate", "WaitForFirstConsumer", "", "x"), "restartPolicy": ("Always", "Never", "OnFailure", ""),
    "nodeName": lambda rng, seen: rng.choice([*seen.nodes, "nowhere", "", None]),
    "name": lambda rng, seen: rng.choice([*seen.nodes, *seen.pods, "", "a/b", "x y"]), "uid": lambda rng, seen: rng.choice(("u", "", "u1")),
    "namespace": lambda rng, seen: rng.choice([*seen.namespaces, "kube-system", "", "a/b"]),
    "claimName": ("c0", "c1", "missing", ""), "volumeName": ("pv0", "pv1", "missing", ""), "storageClassName": ("local", "dynamic", "",
    "x", None),
    "unschedulable": (True, False), "hostNetwork": (True, False), "terminationGracePeriodSeconds": (-1, 0, 2**63),
    "topologySpreadConstraints": lambda rng, seen: [_spread(rng, seen) for _ in range(rng.choice((0, 1, 2, 2)))],
    "requiredDuringSchedulingIgnoredDuringExecution": lambda rng, seen: [_term(rng, seen) for _ in range(rng.choice((0, 1, 2, 3)))],
    "unhealthyPodEvictionPolicy": ("IfHealthyBudget", "AlwaysAllow", "x"), "globalDefault": (True, False),
}  # fmt: skip


def meaning(rng: random.Random, objects: list[Any]) -> None:
    """One change of the kind that the module speaks of, in place; nothing where no place is left for it."""
    rng.choice((_field, _field, _field, _pod, _pod, _node, _companion, _bind, _twin))(rng, objects, world(objects))


def _field(rng: random.Random, objects: list[Any], seen: World) -> None:
    found = [path for path in spots(objects) if path[-1] in _FIELDS]
    if found:
        path = rng.choice(found)
        pool = _FIELDS[path[-1]]
        at(objects, path[:-1])[path[-1]] = pool(rng, seen) if callable(pool) else copy.deepcopy(rng.choice(pool))


def _some(rng: random.Random, objects: list[Any], kind: str) -> tuple[Object, Object]:
    """Metadata and spec of an object of a kind; of nobody if there is none."""
    found = [
        each for each in objects
        if isinstance(each, dict) and each.get("kind") == kind and all(isinstance(each.get(k), dict) for k in ("metadata", "spec"))
    ]  # fmt: skip
    chosen = rng.choice(found) if found else {"metadata": {}, "spec": {}}
    return chosen["metadata"], chosen["spec"]


def _put(into: Object, value: Any, *path: str) -> None:
    for step in path[:-1]:
        if not isinstance(into.get(step), dict):
            into[step] = {}
        into = into[step]
    into[path[-1]] = value


def _pod(rng: random.Random, objects: list[Any], seen: World) -> None:
    """Something that a pod may also have."""
    metadata, spec = _some(rng, objects, "Pod")
    sides = rng.choice(("podAffinity", "podAntiAffinity"))
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    match rng.randrange(14):
        case 0 | 1:
            _put(
                spec,
                [_term(rng, seen) for _ in range(rng.choice((1, 1, 2)))],
                "affinity",
                sides,
                rng.choice((required, required, f"{required[:8]}DuringSchedulingRequiredDuringExecution")),
            )
        case 2:
            _put(spec, [{"weight": rng.choice((1, 100, 0, 101)), "podAffinityTerm": _term(rng, seen)}], "affinity", sides, preferred)
        case 3 | 4:
            spec["topologySpreadConstraints"] = [_spread(rng, seen) for _ in range(rng.choice((1, 2)))]
        case 5:
            spec["tolerations"] = [{"operator": rng.choice(("Exists", "Equal", "", "x")), "key": rng.choice(("", "dedicated", "a"))}]
        case 6:
            kind, value = rng.choice(("affinity", "anti-affinity")), rng.choice(_NOTES)
            _put(metadata, value, "annotations", f"{rng.choice(('resource-policy.nri.io', 'cri-resource-manager.intel.com'))}/{kind}")
        case 7 | 8:
            _gang(rng, metadata, spec)
        case 9:
            kind = rng.choice(("ReplicaSet", "StatefulSet", "Job", "DaemonSet", "Node", "Pod", "", "X"))
            owner = {
                "apiVersion": "apps/v1",
                "kind": kind,
                "name": rng.choice(("o", metadata.get("name"))),
                "uid": rng.choice(("u", "")),
                "controller": True,
            }
            metadata["ownerReferences"] = [owner] * rng.choice((1, 1, 2))
        case 10:
            spec["overhead"] = {"cpu": rng.choice(QUANTITIES), "example.com/gpu": rng.choice(("1", "0.5", 2))}
        case 11:
            spec["initContainers"] = [
                {
                    "name": rng.choice(("i", "c")),
                    "restartPolicy": rng.choice(("Always", "Never", None)),
                    "resources": {"requests": {"cpu": rng.choice(QUANTITIES)}},
                }
            ]
        case 12:
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": rng.choice(("c0", "c1", "x", "missing"))}}]
        case _:
            spec[rng.choice(("resources", "schedulingGates", "nodeSelector", "resourceClaims", "priorityClassName"))] = rng.choice(
                ({"limits": {"cpu": "2"}}, [{"name": "g"}], {"disk": "ssd"}, "system-node-critical", [{"name": "r"}])
            )  # fmt: skip


def _gang(rng: random.Random, metadata: Object, spec: Object) -> None:
    names = ("default/g0", "default/g1", "g0", "other/g", "", "/", "a b")
    keys: dict[str, tuple[Any, ...]] = {
        "kubestow.dev/gang": names, "kubestow.dev/min-member": ("1", "2", "0", "-1", "x", "99999999999", "1.5", 2),
        "kubestow.dev/required-topology": _KEYS, "kubestow.dev/preferred-topology": _KEYS, "scheduling.k8s.io/group-name": names,
        "scheduling.volcano.sh/group-name": names, "kueue.x-k8s.io/podset-required-topology": _KEYS, "kubestow.dev/move-cost": ("5", "x",
        "0"),
        "controller.kubernetes.io/pod-deletion-cost": ("5", "x", str(2**31)), "karpenter.sh/do-not-disrupt": ("true", "yes"),
    }  # fmt: skip
    for key in rng.sample(sorted(keys), rng.choice((1, 2, 3))):
        _put(metadata, rng.choice(keys[key]), "annotations", key)
    if rng.random() < 0.3:
        _put(
            metadata, rng.choice(("g0", "x", "")), "labels", rng.choice(("scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name"))
        )
    if rng.random() < 0.2:
        spec["workloadRef"] = {"name": rng.choice(("x", "w")), "podGroup": "g", "podGroupReplicaKey": rng.choice(("0", "", None))}


def _node(rng: random.Random, objects: list[Any], seen: World) -> None:
    """Something that a node may also have."""
    metadata, spec = _some(rng, objects, "Node")
    match rng.randrange(4):
        case 0:
            spec["taints"] = [
                {"key": rng.choice(("dedicated", "", "a")), "effect": rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule", "x"))}
            ]
        case 1:
            spec["unschedulable"] = rng.choice((True, True, None))
        case 2:
            _put(metadata, rng.choice(("z1", "z2", "", "a" * 64)), "labels", rng.choice(_KEYS[:5]))
        case _:
            metadata["labels"] = rng.choice(({}, None, {"kubernetes.io/hostname": "n0"}))


def _companion(rng: random.Random, objects: list[Any], seen: World) -> None:
    """An object of a kind that may be missing, for a name that is there."""
    found: Object = rng.choice(sample())
    if rng.random() < 0.8:
        name = rng.choice([*seen.nodes, *seen.pods, "o", "g0", "c0", "pv0"])
        found["metadata"] = {"name": name, "namespace": rng.choice([*seen.namespaces, "default"])}
    if found["kind"] == "PodDisruptionBudget":
        found["spec"] = {"selector": _selector(rng, seen), rng.choice(("minAvailable", "maxUnavailable")): rng.choice(_AMOUNTS)}
    objects.append(found)


def _bind(rng: random.Random, objects: list[Any], seen: World) -> None:
    """A pod runs somewhere, whether it may or not, or no longer does."""
    metadata, spec = _some(rng, objects, "Pod")
    if "nodeName" in spec and rng.random() < 0.5:
        del spec["nodeName"]
    else:
        spec["nodeName"] = rng.choice([*seen.nodes, "nowhere"])
    if rng.random() < 0.2:
        metadata["deletionTimestamp"] = rng.choice(("2026-01-01T00:00:00Z", "", "x", None))


def _twin(rng: random.Random, objects: list[Any], seen: World) -> None:
    """An object once more, under the same name or another."""
    if objects:
        found = copy.deepcopy(rng.choice(objects))
        if rng.random() < 0.7 and isinstance(found, dict) and isinstance(found.get("metadata"), dict):
            found["metadata"]["name"] = f"{found['metadata'].get('name')}-{rng.randrange(100)}"
        objects.append(found)
