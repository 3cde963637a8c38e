"""Manifests without a finding, and the cluster that they are for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import yaml

from tests.objects import Object, node, pod

ZONE: Final = "topology.kubernetes.io/zone"
SOUND: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replicas: 3
  selector:
    matchLabels:
      app: web
  strategy:
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
      - name: web
        image: registry.example/web:1
        resources:
          requests:
            cpu: 500m
            memory: 512Mi
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                app: web
---
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
spec:
  selector:
    app: web
  ports:
  - port: 80
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: web
  namespace: shop
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app: web
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
  namespace: shop
spec:
  replicas: 3
  serviceName: db
  selector:
    matchLabels:
      app: db
  template:
    metadata:
      labels:
        app: db
    spec:
      containers:
      - name: db
        image: registry.example/db:1
        resources:
          requests:
            cpu: "1"
            memory: 1Gi
      - name: backup
        image: registry.example/backup:1
        resources:
          requests:
            cpu: 100m
            memory: 64Mi
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector:
          matchLabels:
            app: db
  volumeClaimTemplates:
  - metadata:
      name: data
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: standard
      resources:
        requests:
          storage: 1Gi
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent
  namespace: shop
spec:
  selector:
    matchLabels:
      app: agent
  template:
    metadata:
      labels:
        app: agent
    spec:
      containers:
      - name: agent
        image: registry.example/agent:1
        resources:
          requests:
            cpu: 50m
            memory: 32Mi
---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: nightly
  namespace: shop
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        metadata:
          labels:
            app: nightly
        spec:
          restartPolicy: Never
          containers:
          - name: nightly
            image: registry.example/nightly:1
            resources:
              requests:
                cpu: 200m
                memory: 128Mi
"""


def cluster() -> list[Object]:
    """Return a cluster of six nodes in three zones, in which a cache runs."""
    nodes = [
        node(
            f"{zone}{i}",
            cpu="4",
            memory="8Gi",
            labels={"kubernetes.io/hostname": f"{zone}{i}", ZONE: f"zone-{zone}"},
        )
        for zone in "abc"
        for i in (1, 2)
    ]
    nodes.append(
        node("gpu", cpu="4", memory="8Gi", labels={"pool": "gpu", ZONE: "zone-a"}, taints=[{"key": "gpu", "effect": "NoSchedule"}])
    )
    plain = """
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: default}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: scratch, namespace: shop}
spec: {storageClassName: standard, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: shop}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
"""
    return [
        *nodes,
        *yaml.safe_load_all(plain),
        pod("cache", namespace="shop", labels={"app": "cache"}, node_name="a1", cpu="100m", memory="64Mi"),
    ]


def write_cluster(folder: Path) -> Path:
    """Write the cluster to a folder, and return its path."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster()}), encoding="utf-8")
    return path
