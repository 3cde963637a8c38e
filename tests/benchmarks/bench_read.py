"""Reading speed and memory: ``python tests/benchmarks/bench_read.py [--pods 20000]`` writes a dump as ``kubectl get -o json`` would (about
18 KB a pod) to a temporary folder and loads it in a fresh process, so that the peak is the loader's own."""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def _hex(rng: random.Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def _uid(rng: random.Random) -> str:
    return "-".join(_hex(rng, n) for n in (8, 4, 4, 4, 12))


def _managed(manager: str, subresource: str | None, names: list[str]) -> dict[str, Any]:
    leaf: dict[str, Any] = {
        ".": {},
        "f:image": {},
        "f:imagePullPolicy": {},
        "f:name": {},
    }
    env: dict[str, Any] = {f'k:{{"name":"SETTING_{i}"}}': {".": {}, "f:name": {}, "f:value": {}} for i in range(2)}
    fields = {"f:spec": {"f:containers": {f'k:{{"name":"{n}"}}': leaf | {"f:env": {".": {}} | env} for n in names}, "f:dnsPolicy": {}}}
    conditions: dict[str, Any] = {
        "f:status": {"f:conditions": {f'k:{{"type":"{t}"}}': {".": {}, "f:status": {}, "f:type": {}} for t in ("Ready", "Initialized")}}
    }
    entry = {
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": conditions if subresource else fields,
        "manager": manager,
        "operation": "Update",
        "time": "2026-01-05T10:11:12Z",
    }
    return entry | ({"subresource": subresource} if subresource else {})


def _container(rng: random.Random, app: str, index: int, token: str) -> dict[str, Any]:
    probe = {
        "failureThreshold": 3,
        "httpGet": {"path": "/healthz", "port": 8080 + index, "scheme": "HTTP"},
        "periodSeconds": 10,
        "timeoutSeconds": 1,
    }
    return {
        "args": ["--listen=0.0.0.0:8080", f"--config=/etc/{app}/config.yaml", "--log-format=json"],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{app}-{i}"} for i in range(2)]
        + [{"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
        "image": f"images.example.com/{app}/{app}-{index}:v1.{rng.randrange(90)}.3",
        "imagePullPolicy": "IfNotPresent",
        "livenessProbe": probe,
        "name": f"{app}-{index}",
        "ports": [{"containerPort": 8080 + index, "name": "http", "protocol": "TCP"}],
        "readinessProbe": probe,
        "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": f"{rng.choice((50, 100, 250, 500))}m", "memory": "256Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"mountPath": f"/etc/{app}", "name": "config"},
            {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": token, "readOnly": True},
        ],
    }


def _pod(number: int, nodes: int, replicas: int) -> dict[str, Any]:
    app_number = number // replicas
    same = random.Random(app_number)  # shared by replicas
    rng = random.Random(-number - 1)
    app, template = f"service-{app_number}", _hex(same, 10)
    name = f"{app}-{template}-{_hex(rng, 5)}{number}"
    token = f"kube-api-access-{_hex(rng, 5)}"
    containers = [_container(same, app, i, token) for i in range(2)]
    names = [c["name"] for c in containers]
    affinity_term = {
        "podAffinityTerm": {"labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}}, "topologyKey": "kubernetes.io/hostname"},
        "weight": 100,
    }
    statuses = [
        {
            "containerID": f"containerd://{_hex(rng, 64)}",
            "image": c["image"],
            "imageID": f"images.example.com/{app}@sha256:{_hex(rng, 64)}",
            "lastState": {},
            "name": c["name"],
            "ready": True,
            "restartCount": rng.randrange(3),
            "started": True,
            "state": {"running": {"startedAt": "2026-01-05T10:11:12Z"}},
            "allocatedResources": c["resources"]["requests"],
            "resources": c["resources"],
        }
        for c in containers
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {
                "cni.projectcalico.org/podIP": f"10.{rng.randrange(256)}.{rng.randrange(256)}.7/32",
                "prometheus.io/scrape": "true",
                "example.com/config-checksum": _hex(same, 64),
            },
            "creationTimestamp": f"2026-01-05T10:{rng.randrange(10, 60)}:{rng.randrange(10, 60)}Z",
            "generateName": f"{app}-{template}-",
            "labels": {
                "app.kubernetes.io/name": app,
                "app.kubernetes.io/instance": app,
                "app.kubernetes.io/managed-by": "Helm",
                "pod-template-hash": template,
            },
            "managedFields": [_managed("kube-controller-manager", None, names), _managed("kubelet", "status", names)],
            "name": name,
            "namespace": f"team-{app_number % 40}",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "ReplicaSet",
                    "name": f"{app}-{template}",
                    "uid": _uid(same),
                }
            ],
            "resourceVersion": str(rng.getrandbits(30)),
            "uid": _uid(rng),
        },
        "spec": {
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [affinity_term]}},
            "containers": containers,
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "nodeName": f"node-{rng.randrange(nodes)}",
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {"fsGroup": 65532, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "serviceAccount": app,
            "serviceAccountName": app,
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"effect": "NoExecute", "key": f"node.kubernetes.io/{k}", "operator": "Exists", "tolerationSeconds": 300}
                for k in ("not-ready", "unreachable")
            ],
            "topologySpreadConstraints": [
                {
                    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                }
            ],
            "volumes": [
                {"configMap": {"defaultMode": 420, "name": app}, "name": "config"},
                {
                    "name": token,
                    "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]},
                },
            ],
        },
        "status": {
            "conditions": [
                {"lastProbeTime": None, "lastTransitionTime": "2026-01-05T10:11:12Z", "status": "True", "type": t}
                for t in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": statuses,
            "hostIP": "10.0.0.7",
            "phase": "Running",
            "podIP": "10.1.2.3",
            "podIPs": [{"ip": "10.1.2.3"}],
            "qosClass": "Burstable",
            "startTime": "2026-01-05T10:11:12Z",
        },
    }


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    capacity = {"cpu": "32", "memory": "131072Mi", "pods": "110", "ephemeral-storage": "500Gi"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    images = [{"names": [f"images.example.com/app-{i}:v1"], "sizeBytes": 100_000_000 + i} for i in range(40)]
    status = {"allocatable": capacity, "capacity": capacity, "images": images}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def write(path: Path, pods: int, nodes: int, replicas: int) -> None:
    """A List as kubectl prints it, indented by four."""
    with path.open("w") as file:
        file.write('{\n    "apiVersion": "v1",\n    "items": [\n')
        for i in range(nodes + pods):
            item = _node(i) if i < nodes else _pod(i - nodes, nodes, replicas)
            text = json.dumps(item, indent=4, sort_keys=True).replace("\n", "\n        ")
            file.write(f"        {text}{',' if i + 1 < nodes + pods else ''}\n")
        file.write('    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(path: Path) -> None:
    """In a fresh process: seconds and peak memory as one JSON line on standard output."""
    from kubestow.models.snapshot import snapshot

    before = _peak_mb()
    start = time.perf_counter()
    content = path.read_bytes()
    read = time.perf_counter() - start
    del content
    start, cpu = time.perf_counter(), time.thread_time()
    result = snapshot.load([str(path)])
    seconds, cpu = time.perf_counter() - start, time.thread_time() - cpu
    beside = _peak_mb() - before - path.stat().st_size / 2**20
    print(json.dumps({"pods": len(result.pods), "read": read, "load": seconds, "cpu": cpu, "beside": beside}))


def main() -> None:
    parser = argparse.ArgumentParser(description="measure how fast, and in how much memory, snapshots are read")
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--replicas", type=int, default=20, help="pods of one workload; 1: no two pods alike")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json"
        write(path, options.pods, options.nodes, options.replicas)
        size = path.stat().st_size
        print(f"{options.pods} pods, {options.nodes} nodes: {size / 2**20:.0f} MB, {size / max(1, options.pods) / 1024:.1f} KB a pod")
        print(f"{'run':>3} {'read file s':>12} {'load s':>8} {'of it cpu s':>12} {'MB beside the file':>19}")
        for run in range(1, options.repeat + 1):
            command = [sys.executable, __file__, "--measure", str(path)]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            line = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            figures = json.loads(line)
            print(f"{run:>3} {figures['read']:>12.2f} {figures['load']:>8.2f} {figures['cpu']:>12.2f} {figures['beside']:>19.0f}")


if __name__ == "__main__":
    main()
