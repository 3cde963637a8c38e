"""A kubectl for tests of scripts: a cluster in a JSON file, with a scheduler that knows cordons, nodeSelector and numbers of pods.

The file named by ``KUBECTL_STATE`` holds ``nodes`` and ``pods`` as API objects, ``log`` (what changed the cluster, with the nodes that were
open then), and what is to go wrong: ``refuse``: how often an eviction of ``namespace/name`` is answered with 429 (-1: always);
``misplace``: the node to which replacements of an owner's name go whatever is cordoned; ``meanwhile``: nodes on which other pods turn up
once ``namespace/name`` is evicted; ``whole``: names of owners whose pods get nodes all at once or not at all.
Each reading of pods lets time pass: terminating pods vanish, and pods that were given a node before become Ready.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

Object = dict[str, Any]


class Cluster:
    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self.state: Object = json.loads(self._path.read_text())
        self.pods: list[Object] = self.state["pods"]

    def save(self) -> None:
        """As a whole, since a script's ^C reaches its children too."""
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self.state))
        os.replace(new, self._path)

    def log(self, what: str, name: str) -> None:
        still_open = [n["metadata"]["name"] for n in self.state["nodes"] if not n["spec"].get("unschedulable")]
        self.state["log"].append({"what": what, "name": name, "open": still_open})

    def pod(self, namespace: str, name: str) -> Object:
        found = [p for p in self.pods if (p["metadata"]["namespace"], p["metadata"]["name"]) == (namespace, name)]
        if not found:
            fail(f'Error from server (NotFound): pods "{name}" not found')
        return found[0]

    def node(self, name: str) -> Object:
        found: list[Object] = [node for node in self.state["nodes"] if node["metadata"]["name"] == name]
        if not found:
            fail(f'Error from server (NotFound): nodes "{name}" not found')
        return found[0]

    # --- time -----------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """One round of kubelets, controllers and the scheduler."""
        for pod in list(self.pods):
            if "deletionTimestamp" in pod["metadata"]:
                self.pods.remove(pod)
                if self._owner(pod).get("kind") == "StatefulSet":
                    self._replace(pod, pod["metadata"]["name"])
            elif "nodeName" in pod["spec"] and pod["status"]["phase"] == "Pending":
                pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self._schedule()
        self.save()

    def _owner(self, pod: Object) -> Object:
        return next((o for o in pod["metadata"].get("ownerReferences", []) if o.get("controller")), {})

    def _replace(self, pod: Object, name: str) -> None:
        self.state["created"] = number = self.state.get("created", 0) + 1
        metadata = {k: v for k, v in pod["metadata"].items() if k != "deletionTimestamp"} | {"name": name, "uid": f"new-uid-{number}"}
        spec = {k: v for k, v in pod["spec"].items() if k != "nodeName"}
        self.pods.append({**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})

    def _schedule(self) -> None:
        given: list[Object] = []
        left: set[str] = set()
        for pod in self.pods:
            if "nodeName" in pod["spec"]:
                continue
            owner = self._owner(pod).get("name", "")
            misplaced = self.state.get("misplace", {}).get(owner)
            fitting = [node["metadata"]["name"] for node in self.state["nodes"] if self._takes(node, pod)]
            if misplaced or fitting:
                pod["spec"]["nodeName"] = misplaced or fitting[0]
                given.append(pod)
            else:
                left.add(owner)
        for pod in given:
            if (owner := self._owner(pod).get("name", "")) in left and owner in self.state.get("whole", []):
                del pod["spec"]["nodeName"]

    def _takes(self, node: Object, pod: Object) -> bool:
        here = sum(p["spec"].get("nodeName") == node["metadata"]["name"] for p in self.pods)
        wanted = pod["spec"].get("nodeSelector", {}).items() <= node["metadata"]["labels"].items()
        return wanted and not node["spec"].get("unschedulable") and here < int(node["status"]["allocatable"]["pods"])

    # --- commands -------------------------------------------------------------------------------------------------------

    def evict(self, namespace: str, name: str, body: Object) -> None:
        pod = self.pod(namespace, name)
        asked = body["deleteOptions"]["preconditions"]["uid"]
        if (body["apiVersion"], body["kind"], body["metadata"]) != ("policy/v1", "Eviction", {"name": name, "namespace": namespace}):
            fail("Error from server (BadRequest): no Eviction of this pod")
        if asked != pod["metadata"]["uid"]:
            fail(f"Error from server (Conflict): the UID in the precondition ({asked}) does not match")
        left = self.state.get("refuse", {}).get(f"{namespace}/{name}", 0)
        if left:
            self.state["refuse"][f"{namespace}/{name}"] = left - 1
            self.save()
            fail("Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget.")
        self.log("evict", f"{namespace}/{name}")
        pod["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
        if self._owner(pod).get("kind") not in (None, "StatefulSet"):
            self._replace(pod, f"{self._owner(pod)['name']}-r{self.state.get('created', 0) + 1}")
            self._schedule()
        for other, node in self.state.get("meanwhile", {}).get(f"{namespace}/{name}", {}).items():
            self.pod(namespace, other)["spec"]["nodeName"] = node
        self.save()

    def bind(self, namespace: str, name: str, body: Object) -> None:
        pod = self.pod(namespace, name)
        if body["kind"] != "Binding" or body["metadata"] != {"name": name, "namespace": namespace, "uid": pod["metadata"]["uid"]}:
            fail("Error from server (Conflict): no Binding of this pod")
        if "nodeName" in pod["spec"]:
            fail(f"Error from server (Conflict): pod {name} is already assigned to node {pod['spec']['nodeName']!r}")
        self.log("bind", f"{namespace}/{name}")
        pod["spec"]["nodeName"] = self.node(body["target"]["name"])["metadata"]["name"]
        self.save()

    def cordon(self, names: list[str], *, closed: bool) -> None:
        for node in [self.node(name) for name in names]:  # one that is not there: none is changed
            node["spec"]["unschedulable"] = closed
        self.log("cordon" if closed else "uncordon", " ".join(names))
        self.save()

    def create(self, pod: Object) -> None:
        if {"resourceVersion", "uid"} & set(pod["metadata"]) or "nodeName" in pod["spec"] or "status" in pod:
            fail("Error from server (BadRequest): not a new pod")
        self.log("create", f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        self._replace(pod, pod["metadata"]["name"])
        self.save()


def fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(1)


def column(obj: Any, path: str) -> str:
    """The value of a custom column: ``.a.b`` and ``.list[?(@.key=="value")].c``; ``<none>`` where there is none."""
    found = [obj]
    for name, key, value in re.findall(r'\.(\w+)(?:\[\?\(@\.(\w+)=="?(\w+)"?\)\])?', path):
        found = [each[name] for each in found if name in each]
        if key:
            found = [each for several in found for each in several if str(each.get(key)).lower() == value.lower()]
    return ",".join(str(each).lower() if isinstance(each, bool) else str(each) for each in found) or "<none>"


def merged(target: Object, patch: Object) -> Object:
    """RFC 7386."""
    found = dict(target)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key, {}), value) if isinstance(value, dict) else value
    return found


def main(arguments: list[str]) -> None:
    cluster = Cluster(os.environ["KUBECTL_STATE"])
    match arguments:
        case ["config", "current-context"]:
            print("stand-in")
        case ["get", "nodes", "--no-headers", "-o", form]:
            table(cluster.state["nodes"], form)
        case ["get", "pods", "-n", namespace, "--no-headers", "-o", form]:
            cluster.tick()
            table([pod for pod in cluster.pods if pod["metadata"]["namespace"] == namespace], form)
        case ["get", "pod", name, "-n", namespace, "-o", "json"]:
            print(json.dumps(cluster.pod(namespace, name)))
        case ["patch", "--local", "-f", path, "--type=merge", "-o", "json", "-p", patch]:
            print(json.dumps(merged(json.loads(Path(path).read_text()), json.loads(patch))))
        case ["create", "-f", path]:
            cluster.create(json.loads(Path(path).read_text()))
        case ["create", "--raw", path, "-f", "-"]:
            parts = re.fullmatch(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/(eviction|binding)", path)
            if parts is None:
                fail("Error from server (NotFound): the server could not find the requested resource")
            act = cluster.evict if parts[3] == "eviction" else cluster.bind
            act(parts[1], parts[2], json.load(sys.stdin))
        case ["cordon" | "uncordon" as what, *names] if names:
            cluster.cordon(names, closed=what == "cordon")
        case _:
            fail(f"error: unknown command {arguments}")


def table(objects: list[Object], form: str) -> None:
    columns = [each.partition(":")[2] for each in form.removeprefix("custom-columns=").split(",")]
    for obj in objects:
        print("   ".join(column(obj, path) for path in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
