"""A tiny cluster with its filters, read from plain API objects and asked by scanning all pods: what plans are checked against.

Only what :mod:`tests.plans.tiny` makes of Kubernetes' fields is known here; a test compares every answer with the checker of placements.
Sources of the rules: spec/kubernetes-rules.md; kube-scheduler plugins interpodaffinity and podtopologyspread (filtering.go).

A pod is an index into ``TinyCluster.pods``, a node is an index into ``TinyCluster.nodes``. A state gives the node of each pod, or ABSENT.
``moved`` are the pods that the plan has placed. They hold what their specs request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubestow.models.kube.quantity import parse

Object = Mapping[str, Any]
State = tuple[int, ...]

ABSENT: Final = -1
CORDON: Final = "node.kubernetes.io/unschedulable"
#: Names that distinguish parts of one rule, and the name of that rule.
CORDONS: Final = frozenset({"NodeUnschedulable", "cordon taint"})
_RULES: Final = {"cordon taint": "TaintToleration", "lacking": "InterPodAffinity"}
_VARIANTS: Final = ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution")


def selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Return whether a selector matches these labels. A missing one matches none, an empty one all."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions", ()))


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise ValueError(expression["operator"])


def required(part: Object | None, *, enforced: bool = False) -> list[Object]:
    """The required terms of podAffinity or podAntiAffinity. ``enforced``: only those that hold during execution, too."""
    return [term for variant in _VARIANTS[1 if enforced else 0 :] for term in (part or {}).get(variant, ())]


def node_terms(spec: Object, *, enforced: bool = False) -> list[Sequence[Object]]:
    """The required node affinities, each a list of alternatives."""
    part = spec.get("affinity", {}).get("nodeAffinity", {})
    return [part[variant]["nodeSelectorTerms"] for variant in _VARIANTS[1 if enforced else 0 :] if variant in part]


def matches_node(terms: Sequence[Object], labels: Mapping[str, str]) -> bool:
    """Return whether some alternative accepts the node; one without requirements accepts none."""
    return any(term.get("matchExpressions") and all(_holds(e, labels) for e in term["matchExpressions"]) for term in terms)


@dataclass
class Pod:
    """``home``: node in the snapshot, or ABSENT. ``holding``: what it holds there, as a resize may wait. ``affinity``: keys of its
    terms; ``wanted``: pods that match all; ``foes``: by other pod the keys of anti-affinity, this pod's or the other's."""

    index: int
    raw: Object
    home: int
    requests: dict[str, int]
    holding: dict[str, int]
    ports: list[tuple[str, str, int]]
    key: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    affinity: list[str] = field(default_factory=list)
    wanted: set[int] = field(default_factory=set)
    foes: dict[int, list[str]] = field(default_factory=dict)
    spread: list[Constraint] = field(default_factory=list)
    static: list[set[str]] = field(default_factory=list)  # by node: rules that no other pod has a part in
    clashes: set[int] = field(default_factory=set)  # pods with which it shares a host port

    @property
    def spec(self) -> Object:
        found: Object = self.raw["spec"]
        return found

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    @property
    def terminating(self) -> bool:
        return "deletionTimestamp" in self.raw["metadata"]

    @property
    def priority(self) -> int:
        return int(self.spec.get("priority", 0))

    @property
    def annotations(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.raw["metadata"].get("annotations", {})
        return found


@dataclass
class Constraint:
    """A DoNotSchedule constraint. ``domain``: by node, None if it lacks the key; ``eligible``: by node; ``counted``: pods by index."""

    key: str
    skew: int
    least: int  # minDomains
    domain: list[str | None]
    eligible: list[bool]
    counted: set[int]
    own: bool  # True if the pod matches its own selector


class TinyCluster:
    """Nodes, pods that are not over, and their rules. ``cordoned``: names of nodes that get a cordon and its taint."""

    def __init__(self, objects: Iterable[Object], cordoned: Collection[str] = ()) -> None:
        self.objects = list(objects)
        nodes = [thing for thing in self.objects if thing["kind"] == "Node"]
        self.nodes = [_cordon(thing) if thing["metadata"]["name"] in cordoned else thing for thing in nodes]
        self.names = [node["metadata"]["name"] for node in self.nodes]
        self.labels: list[Mapping[str, str]] = [node["metadata"].get("labels", {}) for node in self.nodes]
        self._room = [{name: _amount(name, value) for name, value in node["status"]["allocatable"].items()} for node in self.nodes]
        self.pods: list[Pod] = []
        for thing in self.objects:
            if thing["kind"] == "Pod" and thing.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                self.pods.append(self._pod(len(self.pods), thing))
        self.index = {pod.key: pod.index for pod in self.pods}
        for pod in self.pods:
            pod.static = [self._static(pod, n) for n in range(len(self.nodes))]
            self._relate(pod)
        self.start: State = tuple(pod.home for pod in self.pods)

    # --- reading ----------------------------------------------------------------------------------------------------

    def _pod(self, index: int, raw: Object) -> Pod:
        metadata, spec = raw["metadata"], raw["spec"]
        home = self.names.index(spec["nodeName"]) if "nodeName" in spec else ABSENT
        requests, holding = dict[str, int](), dict[str, int]()
        ports = []
        status = raw.get("status", {})
        has = {each["name"]: each["resources"]["requests"] for each in status.get("containerStatuses", ())}
        infeasible = any(each["type"] == "PodResizePending" and each["reason"] == "Infeasible" for each in status.get("conditions", ()))
        for container in spec["containers"]:
            requested = {name: _amount(name, value) for name, value in container.get("resources", {}).get("requests", {}).items()}
            actual = {name: _amount(name, value) for name, value in has.get(container["name"], {}).items()}
            wants = {} if infeasible and container["name"] in has else requested
            for name in (*requested, *(name for name in actual if name not in requested)):
                requests[name] = requests.get(name, 0) + requested.get(name, 0)
                holding[name] = holding.get(name, 0) + max(wants.get(name, 0), actual.get(name, 0))
            mapped = [port for port in container.get("ports", ()) if port.get("hostPort")]
            ports += [(port.get("hostIP", "0.0.0.0"), port.get("protocol", "TCP"), port["hostPort"]) for port in mapped]
        key = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
        return Pod(index, raw, home, requests, holding, ports, key, metadata.get("labels", {}))

    def _static(self, pod: Pod, n: int) -> set[str]:
        found = set()
        spec, node = pod.spec, self.nodes[n].get("spec", {})
        if node.get("unschedulable") and not tolerates(spec, {"key": CORDON, "effect": "NoSchedule"}):
            found.add("NodeUnschedulable")
        taints = [
            taint for taint in node.get("taints", ()) if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(spec, taint)
        ]
        if any(taint["key"] != CORDON for taint in taints):
            found.add("TaintToleration")
        elif taints:
            found.add("cordon taint")
        if not self.affine(pod, n):
            found.add("NodeAffinity")
        return found

    def affine(self, pod: Pod, n: int) -> bool:
        """Return whether the pod's node selector and required node affinity accept the node."""
        labels = self.labels[n]
        if any(labels.get(key) != value for key, value in pod.spec.get("nodeSelector", {}).items()):
            return False
        return all(matches_node(terms, labels) for terms in node_terms(pod.spec))

    def _relate(self, pod: Pod) -> None:
        """The relations of the pod to others."""
        affinity = pod.spec.get("affinity", {})
        terms = required(affinity.get("podAffinity"))
        pod.affinity = [term["topologyKey"] for term in terms]
        pod.wanted = {other.index for other in self.pods if terms and all(takes(term, pod, other) for term in terms)}
        for other in self.pods:
            if other is pod:
                continue
            for owner, second in ((pod, other), (other, pod)):
                for term in required(owner.spec.get("affinity", {}).get("podAntiAffinity")):
                    if takes(term, owner, second):
                        pod.foes.setdefault(other.index, []).append(term["topologyKey"])
            if any(
                a[1:] == b[1:] and (a[0] == b[0] or "0.0.0.0" in (a[0], b[0])) for a in pod.ports for b in other.ports
            ):  # same protocol and port, on addresses that meet
                pod.clashes.add(other.index)
        hard = [c for c in pod.spec.get("topologySpreadConstraints", ()) if c["whenUnsatisfiable"] == "DoNotSchedule"]
        keys = [c["topologyKey"] for c in hard]
        for c in hard:
            eligible = []
            for n, labels in enumerate(self.labels):
                taints = [t for t in self.nodes[n].get("spec", {}).get("taints", ()) if t["effect"] in ("NoSchedule", "NoExecute")]
                eligible.append(
                    all(key in labels for key in keys)
                    and (c.get("nodeAffinityPolicy", "Honor") == "Ignore" or self.affine(pod, n))
                    and (c.get("nodeTaintsPolicy", "Ignore") == "Ignore" or all(tolerates(pod.spec, t) for t in taints))
                )
            selector = c.get("labelSelector")
            counted = {p.index for p in self.pods if p.namespace == pod.namespace and not p.terminating and selects(selector, p.labels)}
            domain = [labels.get(c["topologyKey"]) for labels in self.labels]
            own = selects(selector, pod.labels)
            pod.spread.append(Constraint(c["topologyKey"], c["maxSkew"], c.get("minDomains", 1), domain, eligible, counted, own))

    # --- asking -----------------------------------------------------------------------------------------------------

    def rejecting(self, i: int, n: int, state: State, moved: Collection[int] = ()) -> set[str]:
        """The rules that reject pod ``i`` on node ``n``, itself left out of the state."""
        return {_RULES.get(part, part) for part in self.pods[i].static[n] | self.dynamic(i, n, state, moved)}

    def breaks(self, i: int, state: State, moved: Collection[int] = ()) -> set[str]:
        """The rules that a running pod breaks where it is, affinity and anti-affinity apart; a cordon breaks none."""
        n = state[i]
        return (self.pods[i].static[n] - CORDONS) | self.dynamic(i, n, state, moved)

    def broken(self, i: int, state: State, moved: Collection[int] = ()) -> set[str]:
        """The rules that a running pod breaks where it is, by their names."""
        return {_RULES.get(part, part) for part in self.breaks(i, state, moved)}

    def dynamic(self, i: int, n: int, state: State, moved: Collection[int] = ()) -> set[str]:
        """The rules about other pods that reject pod ``i`` on node ``n``, itself left out; required affinity is ``lacking``."""
        pod = self.pods[i]
        mates = [j for j, at in enumerate(state) if at == n and j != i]
        found = set()
        if not pod.clashes.isdisjoint(mates):
            found.add("NodePorts")
        room = self._room[n]
        if len(mates) + 1 > room.get("pods", 0):
            found.add("NodeResourcesFit")
        for name, amount in pod.requests.items():
            holding = (self.pods[j].requests if j in moved or self.pods[j].home == ABSENT else self.pods[j].holding for j in mates)
            if amount and amount + sum(each.get(name, 0) for each in holding) > room.get(name, 0):
                found.add("NodeResourcesFit")
        if any(depth is None or depth > 0 for depth in self.excess(i, n, state)):
            found.add("PodTopologySpread")
        if self._repelled(pod, n, state):
            found.add("InterPodAffinity")
        if self._lacks(pod, n, state):
            found.add("lacking")
        return found

    def excess(self, i: int, n: int, state: State) -> list[int | None]:
        """By how much each DoNotSchedule constraint of pod ``i`` is over its maxSkew with it on node ``n``; None: the key is lacking."""
        found: list[int | None] = []
        for c in self.pods[i].spread:
            if c.domain[n] is None:
                found.append(None)
                continue
            counts = {domain: 0 for domain, eligible in zip(c.domain, c.eligible, strict=True) if eligible}
            for j in c.counted:
                if j != i and state[j] != ABSENT and c.eligible[state[j]]:
                    counts[c.domain[state[j]]] += 1
            least = min(counts.values()) if len(counts) >= max(1, c.least) else 0
            found.append(counts.get(c.domain[n], 0) + c.own - least - c.skew)
        return found

    def _repelled(self, pod: Pod, n: int, state: State) -> bool:
        """Return whether anti-affinity, the pod's or another's, rejects it."""
        labels = self.labels[n]
        for j, keys in pod.foes.items():
            if state[j] != ABSENT:
                there = self.labels[state[j]]
                if any(key in labels and labels[key] == there.get(key) for key in keys):
                    return True
        return False

    def _lacks(self, pod: Pod, n: int, state: State) -> bool:
        """Return whether the pod lacks others that its affinity requires."""
        labels = self.labels[n]
        if any(key not in labels for key in pod.affinity):
            return True
        places = [self.labels[state[j]] for j in pod.wanted if j != pod.index and state[j] != ABSENT]
        if all(any(there.get(key) == labels[key] for there in places) for key in pod.affinity):
            return False
        nobody = not any(key in there for there in places for key in pod.affinity)
        return not (nobody and pod.index in pod.wanted)  # the first of pods that want each other may be anywhere


def _cordon(node: Object) -> Object:
    spec = node.get("spec", {})
    taints = [taint for taint in spec.get("taints", ()) if taint["key"] != CORDON]
    return {**node, "spec": {**spec, "unschedulable": True, "taints": [*taints, {"key": CORDON, "effect": "NoSchedule"}]}}


def takes(term: Object, owner: Pod, other: Pod) -> bool:
    """Return whether a pod (anti-)affinity term of ``owner`` selects ``other``."""
    return other.namespace in (term.get("namespaces") or [owner.namespace]) and selects(term.get("labelSelector"), other.labels)


def tolerates(spec: Object, taint: Object) -> bool:
    """Return whether one of the pod's tolerations matches the taint."""
    for each in spec.get("tolerations", ()):
        same = each.get("effect") in (None, taint["effect"]) and each.get("key") in (None, taint["key"])
        if same and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", "")):
            return True
    return False


def _amount(name: str, value: str) -> int:
    exact = parse(value) * (1000 if name == "cpu" else 1)
    assert exact == int(exact), f"{name}: {value}"
    return int(exact)
