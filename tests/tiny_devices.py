"""Devices for tiny random snapshots: slices of nodes and of a fabric, classes, and claims of every form."""

from __future__ import annotations

import random
from typing import Any, Final

Object = dict[str, Any]

GPU: Final = "gpu.example.com"
NIC: Final = "nic.example.com"
API: Final = "resource.k8s.io/v1"
_TAINT: Final = {"key": "gpu.example.com/worn", "value": "yes", "effect": "NoSchedule"}


def equipped(objects: list[Object], seed: int, chance: float = 0.8) -> list[Object]:
    """Return the objects with devices on the nodes. A pod, with its twins, requests devices with probability ``chance``."""
    return _Equipment(random.Random(f"devices-{seed}"), objects).make(chance)


class _Equipment:
    def __init__(self, rng: random.Random, objects: list[Object]) -> None:
        self.rng, self.objects = rng, objects
        self.nodes = [thing for thing in objects if thing["kind"] == "Node"]
        self.found: list[Object] = []
        self.devices: list[tuple[str, str, Object]] = []  # driver, pool, device
        self.free: list[tuple[str, str, Object]] = []

    def make(self, chance: float) -> list[Object]:
        rng = self.rng
        rich = rng.choice(("plain", "plain", "shared", "parts", "any"))
        for node in self.nodes:
            self.local(node["metadata"]["name"], rich)
        if rng.random() < 0.4:
            self.fabric(rng.random() < 0.5)
        self.free = [d for d in self.devices if not d[2].get("allowMultipleAllocations")]
        rng.shuffle(self.free)
        self.classes()
        self.allocated = [self.held(f"held-{i}") for i in range(rng.choice((0, 0, 1, 2)))]
        self.shared = self.claim_object("together", self.spec(one=True)) if rng.random() < 0.4 else None
        self.forms = [self.spec() for _ in range(rng.choice((1, 1, 2)))]
        for i, spec in enumerate(self.forms):
            self.found.append(
                {
                    "apiVersion": API,
                    "kind": "ResourceClaimTemplate",
                    "metadata": {"name": f"t{i}", "namespace": "default"},
                    "spec": {"spec": spec},
                }
            )
        asks: dict[int, Object] = {}
        for thing in self.objects:
            if thing["kind"] == "Pod":
                thing["metadata"]["uid"] = f"uid-{thing['metadata']['name']}"
                if "nodeName" in thing["spec"]:
                    continue
                twin = id(thing["spec"])
                if twin not in asks:
                    asks[twin] = self.wants() if rng.random() < chance else {}
                self.ask(thing, asks[twin])
        return [*self.objects, *self.found]

    # --- published devices --------------------------------------------------------------------------------------------------------

    def local(self, node: str, rich: str) -> None:
        rng = self.rng
        devices = [self.device(f"gpu-{i}", rich) for i in range(rng.choice((0, 1, 2, 2, 3)))]
        spec: Object = {"driver": GPU, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}
        if devices and rich in ("parts", "any") and rng.random() < 0.6:
            for device in devices:
                counters = {"slots": {"value": str(rng.choice((1, 1, 2)))}}
                device["consumesCounters"] = [{"counterSet": "card", "counters": counters}]
            spec["pool"]["resourceSliceCount"] = 2
            total = {"name": "card", "counters": {"slots": {"value": str(rng.choice((1, 2, 3)))}}}
            self.slice(f"{node}-counters", {**spec, "sharedCounters": [total]})
        if rng.random() < 0.03:
            spec = {**spec, "pool": {**spec["pool"], "resourceSliceCount": 5}}
        self.slice(f"{node}-gpus", {**spec, "devices": devices})
        self.devices += [(GPU, node, device) for device in devices]

    def device(self, name: str, rich: str) -> Object:
        rng = self.rng
        found: Object = {"name": name, "attributes": {"model": {"string": rng.choice(("a", "a", "b"))}}}
        if rng.random() < 0.85:
            found["attributes"]["numa"] = {"int": rng.choice((0, 1))}
        if rng.random() < 0.5:
            found["attributes"]["example.com/root"] = {"string": rng.choice(("x", "y"))}
        if rich in ("shared", "any") and rng.random() < 0.6:
            found["allowMultipleAllocations"] = True
            memory: Object = {"value": rng.choice(("4Gi", "8Gi"))}
            if rng.random() < 0.6:
                memory["requestPolicy"] = {"default": "2Gi", "validRange": {"min": "2Gi", "step": "2Gi"}}
            found["capacity"] = {"memory": memory}
        elif rng.random() < 0.5:
            found["capacity"] = {"memory": {"value": rng.choice(("4Gi", "8Gi"))}}
        if rng.random() < 0.1:
            found["taints"] = [_TAINT]
        return found

    def fabric(self, everywhere: bool) -> None:
        rng = self.rng
        devices: list[Object] = [{"name": f"nic-{i}", "attributes": {"numa": {"int": i % 2}}} for i in range(rng.choice((1, 2)))]
        for device in devices:
            if rng.random() < 0.2:
                device |= {"bindsToNode": True, "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
        spec: Object = {"driver": NIC, "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1}, "devices": devices}
        if everywhere:
            spec["allNodes"] = True
        else:
            expression = {"key": "zone", "operator": "In", "values": ["z1"]}
            spec["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        self.slice("fabric", spec)
        self.devices += [(NIC, "fabric", device) for device in devices]

    def slice(self, name: str, spec: Object) -> None:
        self.found.append({"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec})

    def classes(self) -> None:
        model = 'device.attributes["gpu.example.com"].model'
        gpu: Object = {"selectors": [_cel(f'device.driver == "{GPU}"')]}
        if self.rng.random() < 0.5:
            gpu["extendedResourceName"] = "example.com/gpu"
        for name, spec in {
            "gpu": gpu,
            "model-a": {"selectors": [_cel(f'device.driver == "{GPU}" && {model} == "a"')]},
            "nic": {"selectors": [_cel(f'device.driver == "{NIC}"')]},
            "any": {},
        }.items():
            self.found.append(
                {
                    "apiVersion": API, "kind": "DeviceClass",
                    "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec,
                }
            )  # fmt: skip

    # --- claims of pods -----------------------------------------------------------------------------------------------------------

    def spec(self, *, one: bool = False) -> Object:
        """Return the spec of a claim. ``one`` restricts it to a single request, mostly for devices that nodes share."""
        rng = self.rng
        requests = [self.request(f"r{i}", one=one) for i in range(1 if one else rng.choice((1, 1, 2)))]
        constraints: list[Object] = []
        if rng.random() < (0.1 if one else 0.4):
            form = rng.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
            constraint: Object = {form: rng.choice((f"{GPU}/numa", f"{GPU}/model", "example.com/root"))}
            if rng.random() < 0.5:
                constraint["requests"] = [request["name"] for request in requests]
            constraints.append(constraint)
        devices: Object = {"requests": requests}
        if constraints:
            devices["constraints"] = constraints
        return {"devices": devices}

    def request(self, name: str, *, one: bool = False) -> Object:
        rng = self.rng
        if rng.random() < 0.2:
            return {"name": name, "firstAvailable": [{"name": f"s{i}", **self.exact(one=one)} for i in range(2)]}
        exact = self.exact(one=one)
        if rng.random() < 0.06:
            exact["adminAccess"] = True
        return {"name": name, "exactly": exact}

    def exact(self, *, one: bool) -> Object:
        rng = self.rng
        found: Object = {"deviceClassName": rng.choice(("nic", "nic", "any", "gpu") if one else ("gpu", "gpu", "model-a", "any", "nic"))}
        if rng.random() < 0.08:
            found["allocationMode"] = "All"
        else:
            found |= {"allocationMode": "ExactCount", "count": rng.choice((1, 1, 1, 2))}
        if rng.random() < 0.2:
            found["selectors"] = [_cel(f'device.attributes["{GPU}"].?numa.orValue(0) == {rng.choice((0, 1))}')]
        if rng.random() < 0.3:
            found["tolerations"] = [{"key": _TAINT["key"], "operator": "Exists"}]
        if rng.random() < 0.12:
            found["capacity"] = {"requests": {"memory": rng.choice(("1Gi", "3Gi", "4Gi"))}}
        return found

    def claim_object(self, name: str, spec: Object) -> Object:
        found: Object = {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self.found.append(found)
        return found

    def held(self, name: str) -> Object:
        """Return an allocated claim on a device of a node or of the fabric."""
        request = {"name": "r0", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}}
        found = self.claim_object(name, {"devices": {"requests": [request]}})
        if not self.free:
            return found
        driver, pool, device = self.free.pop()
        allocation: Object = {"devices": {"results": [{"request": "r0", "driver": driver, "pool": pool, "device": device["name"]}]}}
        if driver == GPU:
            field = {"key": "metadata.name", "operator": "In", "values": [pool]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        found["status"] = {"allocation": allocation}
        return found

    def wants(self) -> Object:
        """Return the claims that a pod and its twins use."""
        rng = self.rng
        roll = rng.random()
        if roll < 0.15:
            return {"extended": rng.choice(("example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"))}
        found: Object = {"entries": []}
        for _ in range(rng.choice((1, 1, 1, 2))):
            roll = rng.random()
            if roll < 0.3 and self.shared is not None:
                found["entries"].append({"resourceClaimName": "together"})
            elif roll < 0.4 and self.allocated:
                found["entries"].append({"resourceClaimName": rng.choice(self.allocated)["metadata"]["name"]})
            else:
                found["entries"].append({"resourceClaimTemplateName": f"t{rng.randrange(len(self.forms))}"})
        return found

    def ask(self, pod: Object, wants: Object) -> None:
        if "extended" in wants:
            container = pod["spec"]["containers"][0]
            requests = {**container["resources"].get("requests", {}), wants["extended"]: "1"}
            limits = {wants["extended"]: "1"}
            pod["spec"] = {**pod["spec"], "containers": [{**container, "resources": {"requests": requests, "limits": limits}}]}
        if not wants.get("entries"):
            return
        pod["metadata"]["namespace"] = "default"
        name, statuses = pod["metadata"]["name"], []
        entries = [{"name": f"e{i}", **entry} for i, entry in enumerate(wants["entries"])]
        for entry in entries:
            template = entry.get("resourceClaimTemplateName")
            if template is None:
                continue
            claim = self.claim_object(f"{name}-{entry['name']}", self.forms[int(template[1:])])
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"], "controller": True}
            claim["metadata"]["ownerReferences"] = [owner]
            claim["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": entry["name"]}
            statuses.append({"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]})
        pod["spec"] = {**pod["spec"], "resourceClaims": entries}
        pod["status"] = {**pod["status"], "resourceClaimStatuses": statuses}


def _cel(expression: str) -> Object:
    return {"cel": {"expression": expression}}
