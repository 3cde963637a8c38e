"""Rollouts under random quotas and LimitRanges, and every interleaving of the controllers that bring them about.

Nodes have room for everything: only what the API server admits matters. Each step is one that a controller may take next: the Deployment
controller scales a ReplicaSet, a ReplicaSet controller creates a pod or deletes some, a pod becomes ready, a pod that is deleted ends.
This module reads everything from the plain objects and uses no code of ``models``, ``solver`` or ``checker``.

Sources: pkg/controller/deployment/{sync,rolling,recreate}.go, pkg/controller/replicaset, plugin/pkg/admission/{resourcequota,limitranger}.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.objects import Object, node

APP = {"app": "web"}
Sizes = dict[str, int]
_RESOURCES = ("requests.cpu", "limits.cpu", "cpu", "requests.memory", "memory", "pods", "count/pods")


@dataclass(frozen=True)
class Case:
    """``objects``: the cluster; ``manifest``: the Deployment as it is to be."""

    objects: list[Object]
    manifest: Object


# --- random cases -----------------------------------------------------------------------------------------------------------


def case(seed: int, *, scaled: bool = False) -> Case:
    """A Deployment of one to five replicas with one or two old ReplicaSets. ``scaled``: the number of replicas may change, too."""
    rng = random.Random(seed)
    replicas = rng.randint(1, 5)
    wanted = max(1, replicas + rng.choice((-1, 0, 1, 2))) if scaled else replicas
    before = [_spec(rng) for _ in range(1 if scaled else rng.choice((1, 1, 2)))]
    after = rng.choice((before[-1], _spec(rng), _spec(rng)))
    counts = [replicas] if len(before) == 1 else [rng.randint(0, replicas), 0]
    counts[-1] = replicas - sum(counts[:-1])
    objects: list[Object] = [node("n", cpu="1000", memory="1000Gi", pods="1000")]
    objects += [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}]
    pods: list[Object] = []
    for number, (spec, count) in enumerate(zip(before, counts, strict=True)):
        name = f"web-{number}old"
        owner = _owner("Deployment", "web")
        labels = {**APP, "pod-template-hash": f"{number}old"}
        born = f"2026-01-0{number + 1}T00:00:00Z"
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": name,
            "ownerReferences": [owner],
            "creationTimestamp": born,
            "labels": labels,
        }
        template = {"metadata": {"labels": labels}, "spec": spec}
        replica_set = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
        objects.append({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": replica_set})
        pods += [_running(f"{name}-{i}", name, labels, spec, ready=rng.random() > 0.1) for i in range(count)]
    strategy = _strategy(rng)
    ranges = [_range(rng, after)] if rng.random() < 0.25 else []
    quotas = [_quota(rng, f"q{i}", pods, after, wanted) for i in range(rng.choice((1, 1, 1, 2)))]
    objects += [_deployment(replicas, before[-1], strategy), *pods, *ranges, *quotas]
    if rng.random() < 0.3:
        objects.append(_running("other", None, {"app": "db"}, _spec(rng, bare=True), ready=True))
    return Case(objects, _deployment(wanted, after, strategy))


def _spec(rng: random.Random, *, bare: bool = False) -> Object:
    """Return a pod spec. Only a bare pod may have a deadline: an API server refuses one in the template of a Deployment."""
    resources: Object = {}
    if rng.random() < 0.9:
        cpu = rng.choice((100, 200, 300))
        resources = {"requests": {"cpu": f"{cpu}m", "memory": f"{rng.choice((64, 128))}Mi"}}
        if rng.random() < 0.5:
            resources["limits"] = {"cpu": f"{cpu * rng.choice((1, 2))}m"}
    spec: Object = {"containers": [{"name": "c", "image": f"i:{rng.randrange(3)}", "resources": resources}]}
    if rng.random() < 0.2:
        spec["priorityClassName"] = "high"
    if rng.random() < 0.1 and bare:
        spec["activeDeadlineSeconds"] = 600
    return spec


def _strategy(rng: random.Random) -> Object:
    surge, unavailable = rng.choice(((1, 0), (1, 0), (2, 0), (1, 1), (0, 1), (0, 2), ("25%", "25%"), ("50%", 0)))
    if rng.random() < 0.15:
        return {"type": "Recreate"}
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def _quota(rng: random.Random, name: str, pods: list[Object], after: Object, wanted: int) -> Object:
    """Close to the usage before, during or after the rollout."""
    hard: Object = {}
    for resource in rng.sample(_RESOURCES, rng.choice((1, 1, 2))):
        used = sum(_uses(pod["spec"]).get(resource, 0) for pod in pods)
        each = _uses(after).get(resource, 0)
        number = max(
            0, rng.choice((used, used, used + each, used + 2 * each, wanted * each, (wanted + 1) * each)) + rng.choice((0, 0, 0, -1, 1))
        )
        hard[resource] = f"{number}m" if resource.endswith("cpu") else f"{number}Mi" if resource.endswith("memory") else str(number)
    spec: Object = {"hard": hard}
    roll = rng.random()
    if roll < 0.15:
        spec["scopes"] = [rng.choice(("BestEffort", "NotBestEffort", "Terminating", "NotTerminating"))]
    elif roll < 0.3:
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": ["high"]} if operator in ("In", "NotIn") else {}
        spec["scopeSelector"] = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, **values}]}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _range(rng: random.Random, after: Object) -> Object:
    item: Object = {"type": "Container"}
    for field, values in (("min", (50, 150)), ("max", (250, 600)), ("default", (200, 400)), ("defaultRequest", (100, 200))):
        if rng.random() < 0.4:
            item[field] = {"cpu": f"{rng.choice(values)}m"}
    if rng.random() < 0.2:
        item["maxLimitRequestRatio"] = {"cpu": "1"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": [item]}}


def _owner(kind: str, name: str) -> Object:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}


def _running(name: str, owner: str | None, labels: dict[str, str], spec: Object, *, ready: bool) -> Object:
    metadata: Object = {"name": name, "namespace": "default", "uid": name, "labels": labels, "creationTimestamp": "2026-01-03T00:00:00Z"}
    if owner is not None:
        metadata["ownerReferences"] = [_owner("ReplicaSet", owner)]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "nodeName": "n"}, "status": status}


def _deployment(replicas: int, spec: Object, strategy: Object) -> Object:
    template = {"metadata": {"labels": APP}, "spec": spec}
    found = {"replicas": replicas, "selector": {"matchLabels": APP}, "template": template, "strategy": strategy}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default", "uid": "web"}, "spec": found}


# --- what the API server admits ---------------------------------------------------------------------------------------------


def _number(text: str) -> int:
    """mCPU of CPU, Mi of memory, or pods: the units of this module."""
    for suffix in ("Mi", "m"):
        if text.endswith(suffix):
            return int(text.removesuffix(suffix))
    return int(text)


def _cpu(text: str) -> int:
    return _number(text) if text.endswith("m") else 1000 * int(text)


def _parts(spec: Object) -> tuple[Sizes, Sizes]:
    """Requests and limits of the only container, as stored: a limit is the request where there is none."""
    resources = spec["containers"][0].get("resources") or {}
    read = {
        part: {name: _cpu(text) if name == "cpu" else _number(text) for name, text in (resources.get(part) or {}).items()}
        for part in ("requests", "limits")
    }
    return {**read["limits"], **read["requests"]}, read["limits"]


def _uses(spec: Object) -> Sizes:
    requests, limits = _parts(spec)
    found = {"pods": 1, "count/pods": 1}
    for name, value in requests.items():
        found |= {name: value, f"requests.{name}": value}
    return found | {f"limits.{name}": value for name, value in limits.items()}


def _filled(spec: Object, ranges: list[Object]) -> Object:
    """The spec as the LimitRanger stores it."""
    requests, limits = _parts(spec)
    for item in (item for found in ranges for item in found["spec"]["limits"]):
        read = {field: {"cpu": _cpu(item[field]["cpu"])} if field in item else {} for field in ("min", "max", "default", "defaultRequest")}
        default = {**read["max"], **read["default"]}
        filled = {**read["min"], **default, **read["defaultRequest"]}
        limits, requests = {**default, **limits}, {**filled, **requests}
    resources = {
        part: {name: f"{value}m" if name == "cpu" else f"{value}Mi" for name, value in sizes.items()}
        for part, sizes in (("requests", requests), ("limits", limits))
    }
    return {**spec, "containers": [{**spec["containers"][0], "resources": resources}]}


def _in_range(spec: Object, ranges: list[Object]) -> bool:
    requests, limits = _parts(spec)
    if ranges and any(requests[name] > limits[name] for name in limits):
        return False
    requested, limit = requests.get("cpu"), limits.get("cpu")
    for item in (item for found in ranges for item in found["spec"]["limits"]):
        if "min" in item and (requested is None or min(requested, limit or requested) < _cpu(item["min"]["cpu"])):
            return False
        if "max" in item and (limit is None or max(limit, requested or 0) > _cpu(item["max"]["cpu"])):
            return False
        if "maxLimitRequestRatio" in item and (not requested or not limit or limit > requested):
            return False
    return True


def _concerns(quota: Object, spec: Object) -> bool:
    requests, limits = _parts(spec)
    idle, ends, high = not requests and not limits, "activeDeadlineSeconds" in spec, "priorityClassName" in spec
    scopes = {"BestEffort": idle, "NotBestEffort": not idle, "Terminating": ends, "NotTerminating": not ends}
    classes = {"In": high, "NotIn": not high, "Exists": high, "DoesNotExist": not high}
    chosen = [term["operator"] for term in quota["spec"].get("scopeSelector", {}).get("matchExpressions", ())]
    return all(scopes[name] for name in quota["spec"].get("scopes", ())) and all(classes[operator] for operator in chosen)


# --- the controllers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Set:
    """A ReplicaSet, the last of them the new one. ``wanted``: its spec.replicas; ``ready``, ``pending``, ``ailing``: pods, those of the
    last kind never get ready; ``ending``: pods that are deleted and still there."""

    wanted: int
    ready: int = 0
    pending: int = 0
    ailing: int = 0
    ending: int = 0

    @property
    def pods(self) -> int:
        return self.ready + self.pending + self.ailing


_State = tuple[_Set, ...]


class Interleavings:
    """``outcomes``: whether rollouts complete at the ends of all interleavings."""

    def __init__(self, case: Case) -> None:
        kinds: dict[str, list[Any]] = {}
        for obj in case.objects:
            kinds.setdefault(obj["kind"], []).append(obj)
        self.quotas, ranges = kinds.get("ResourceQuota", []), kinds.get("LimitRange", [])
        spec = case.manifest["spec"]
        self.replicas: int = spec["replicas"]
        self.recreate = spec["strategy"]["type"] == "Recreate"
        rolling = spec["strategy"].get("rollingUpdate", {})
        self.surge = self._scaled(rolling.get("maxSurge", 0), up=True)
        self.unavailable = self._scaled(rolling.get("maxUnavailable", 0), up=False)
        if not self.surge and not self.unavailable:
            self.unavailable = 1
        new = _filled(spec["template"]["spec"], ranges)
        sets = kinds["ReplicaSet"]
        specs = [_filled(each["spec"]["template"]["spec"], ranges) for each in sets] + [new]
        self.ranged = [_in_range(each, ranges) for each in specs]
        by_set = {each["metadata"]["name"]: k for k, each in enumerate(sets)}
        states = [_Set(each["spec"]["replicas"]) for each in sets] + [_Set(0)]
        self.used = [dict[str, int]() for _ in self.quotas]
        running: list[Object] = [{} for _ in sets]
        for pod in kinds["Pod"]:
            owners = pod["metadata"].get("ownerReferences")
            if not owners:
                for used, quota in zip(self.used, self.quotas, strict=True):
                    for name, value in _uses(pod["spec"]).items() if _concerns(quota, pod["spec"]) else ():
                        used[name] = used.get(name, 0) + value
                continue
            k = by_set[owners[0]["name"]]
            running[k] = pod["spec"]
            ready = pod["status"]["conditions"][0]["status"] == "True"
            states[k] = replace(states[k], ready=states[k].ready + ready, ailing=states[k].ailing + (not ready))
        # Pods that run were admitted before there was a LimitRange; those that a ReplicaSet makes again are filled in.
        self.uses = [[_uses(each) if _concerns(quota, each) else {} for quota in self.quotas] for each in specs]
        self.runs = [[_uses(each) if each and _concerns(quota, each) else {} for quota in self.quotas] for each in running] + [
            self.uses[-1]
        ]
        self.specs = specs
        active = [k for k, each in enumerate(states[:-1]) if each.wanted]
        if len(active) == 1:  # the Deployment controller scales first, then it rolls out
            states[active[0]] = replace(states[active[0]], wanted=self.replicas)
        self.start: _State = tuple(states)
        self.outcomes = self._explored()

    def _scaled(self, value: int | str, *, up: bool) -> int:
        if isinstance(value, int):
            return value
        product = int(value.removesuffix("%")) * self.replicas
        return -(-product // 100) if up else product // 100

    def _explored(self) -> set[bool]:
        seen, stack, outcomes = {self.start}, [self.start], set[bool]()
        while stack:
            state = stack.pop()
            following = [then for then in self._next(state) if then != state]
            if not following:
                outcomes.add(self._complete(state))
            for then in following:
                if then not in seen:
                    seen.add(then)
                    stack.append(then)
        return outcomes

    def _complete(self, state: _State) -> bool:
        return state[-1].ready == self.replicas and not any(each.pods or each.wanted for each in state[:-1])

    def _next(self, state: _State) -> Iterator[_State]:
        yield self._recreated(state) if self.recreate else self._rolled(state)
        for k, each in enumerate(state):
            if each.pods < each.wanted and self._admits(state, k):
                yield _with(state, k, replace(each, pending=each.pending + 1))
            if each.pods > each.wanted:
                yield _with(state, k, self._shrunk(each))
            if each.pending:
                yield _with(state, k, replace(each, pending=each.pending - 1, ready=each.ready + 1))
            if each.ending:
                yield _with(state, k, replace(each, ending=each.ending - 1))

    def _recreated(self, state: _State) -> _State:
        if any(each.wanted for each in state[:-1]):
            return (*(replace(each, wanted=0) for each in state[:-1]), state[-1])
        if any(each.pods or each.ending for each in state[:-1]):
            return state
        return _with(state, len(state) - 1, replace(state[-1], wanted=self.replicas))

    def _rolled(self, state: _State) -> _State:
        """One sync of the Deployment controller: the new ReplicaSet grows, or else old ones shrink.

        Pods that a ReplicaSet is about to delete do not count as available. The real controller may count them where the status of a
        ReplicaSet is late; then it deletes more than maxUnavailable allows.
        """
        total, new = sum(each.wanted for each in state), state[-1]
        more = min(self.replicas + self.surge - total, self.replicas - new.wanted)
        if more > 0:
            return _with(state, len(state) - 1, replace(new, wanted=new.wanted + more))
        least = self.replicas - self.unavailable
        spare = total - least - (new.wanted - new.ready)
        if spare <= 0 or total == new.wanted:
            return state
        replica_sets = list(state)
        for k in range(len(state) - 1):
            less = min(spare, max(0, replica_sets[k].wanted - replica_sets[k].ready))
            replica_sets[k] = replace(replica_sets[k], wanted=replica_sets[k].wanted - less)
            spare -= less
        excess = sum(min(each.ready, each.wanted) for each in replica_sets) - least
        for k in range(len(state) - 1):
            less = max(0, min(excess, replica_sets[k].wanted))
            replica_sets[k] = replace(replica_sets[k], wanted=replica_sets[k].wanted - less)
            excess -= less
        return tuple(replica_sets)

    def _shrunk(self, each: _Set) -> _Set:
        """Pods that do not serve go first."""
        gone = each.pods - each.wanted
        surplus = gone
        pending = min(surplus, each.pending)
        surplus -= pending
        ailing = min(surplus, each.ailing)
        surplus -= ailing
        return replace(
            each, pending=each.pending - pending, ailing=each.ailing - ailing, ready=each.ready - surplus, ending=each.ending + gone
        )

    def _admits(self, state: _State, k: int) -> bool:
        if not self.ranged[k]:
            return False
        requests, limits = _parts(self.specs[k])
        for number, quota in enumerate(self.quotas):
            if not _concerns(quota, self.specs[k]):
                continue
            for resource, text in quota["spec"]["hard"].items():
                stated = limits if resource.startswith("limits.") else requests
                plain = resource.rpartition(".")[2]
                if plain in ("cpu", "memory") and plain not in stated:
                    return False
                more = self.uses[k][number].get(resource, 0)
                used = self.used[number].get(resource, 0)
                for other, each in enumerate(state):
                    used += (each.pods + each.ending) * self.runs[other][number].get(resource, 0)
                hard = _cpu(text) if plain == "cpu" else _number(text)
                if more and used + more > hard:
                    return False
        return True


def _with(state: _State, k: int, each: _Set) -> _State:
    return (*state[:k], each, *state[k + 1 :])
