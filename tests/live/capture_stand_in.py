"""An API server that lists objects, without a network, and a stand-in for kubectl on PATH that asks it (run as a program): it takes the
calls that ``kubestow capture`` may make, and no others.

The stand-in is a script that knows the plain answers, and asks this module for the others: it reads a :class:`Server` as JSON from the file
that the environment variable KUBECTL_STATE names. The arguments of all calls are logged in the same folder, one list a line. It has no
``kubectl proxy``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]

#: Name, short name, apiVersion, namespaced, kind: the kinds of real servers with the extensions, and some irrelevant ones.
TABLE = [
    ("bindings", "", "v1", True, "Binding"),
    ("configmaps", "cm", "v1", True, "ConfigMap"),
    ("endpoints", "ep", "v1", True, "Endpoints"),
    ("namespaces", "ns", "v1", False, "Namespace"),
    ("limitranges", "limits", "v1", True, "LimitRange"),
    ("nodes", "no", "v1", False, "Node"),
    ("persistentvolumeclaims", "pvc", "v1", True, "PersistentVolumeClaim"),
    ("persistentvolumes", "pv", "v1", False, "PersistentVolume"),
    ("pods", "po", "v1", True, "Pod"),
    ("podtemplates", "", "v1", True, "PodTemplate"),
    ("replicationcontrollers", "rc", "v1", True, "ReplicationController"),
    ("resourcequotas", "quota", "v1", True, "ResourceQuota"),
    ("secrets", "", "v1", True, "Secret"),
    ("services", "svc", "v1", True, "Service"),
    ("daemonsets", "ds", "apps/v1", True, "DaemonSet"),
    ("deployments", "deploy", "apps/v1", True, "Deployment"),
    ("replicasets", "rs", "apps/v1", True, "ReplicaSet"),
    ("statefulsets", "sts", "apps/v1", True, "StatefulSet"),
    ("cronjobs", "cj", "batch/v1", True, "CronJob"),
    ("jobs", "", "batch/v1", True, "Job"),
    ("daemonsets", "ds", "extensions/v1beta1", True, "DaemonSet"),
    ("deployments", "deploy", "extensions/v1beta1", True, "Deployment"),
    ("workloads", "wl", "kueue.x-k8s.io/v1beta1", True, "Workload"),
    ("pods", "", "metrics.k8s.io/v1beta1", True, "PodMetrics"),
    ("evictionrequests", "", "lifecycle.k8s.io/v1alpha1", True, "EvictionRequest"),
    ("runtimeclasses", "", "node.k8s.io/v1", False, "RuntimeClass"),
    ("poddisruptionbudgets", "pdb", "policy/v1", True, "PodDisruptionBudget"),
    ("deviceclasses", "", "resource.k8s.io/v1", False, "DeviceClass"),
    ("resourceclaims", "", "resource.k8s.io/v1", True, "ResourceClaim"),
    ("resourceclaimtemplates", "", "resource.k8s.io/v1", True, "ResourceClaimTemplate"),
    ("resourceslices", "", "resource.k8s.io/v1", False, "ResourceSlice"),
    ("devicetaintrules", "", "resource.k8s.io/v1beta2", False, "DeviceTaintRule"),
    ("podgroups", "", "scheduling.k8s.io/v1alpha2", True, "PodGroup"),
    ("priorityclasses", "pc", "scheduling.k8s.io/v1", False, "PriorityClass"),
    ("workloads", "", "scheduling.k8s.io/v1alpha1", True, "Workload"),
    ("podgroups", "pg", "scheduling.volcano.sh/v1beta1", True, "PodGroup"),
    ("podgroups", "pg", "scheduling.x-k8s.io/v1alpha1", True, "PodGroup"),
    ("csidrivers", "", "storage.k8s.io/v1", False, "CSIDriver"),
    ("csinodes", "", "storage.k8s.io/v1", False, "CSINode"),
    ("storageclasses", "sc", "storage.k8s.io/v1", False, "StorageClass"),
    ("noderesourcetopologies", "node-res-topo", "topology.node.k8s.io/v1alpha2", False, "NodeResourceTopology"),
    ("capacitybuffers", "cb", "autoscaling.x-k8s.io/v1beta1", True, "CapacityBuffer"),
    ("balloonspolicies", "", "config.nri/v1alpha1", True, "BalloonsPolicy"),
    ("topologyawarepolicies", "", "config.nri/v1alpha1", True, "TopologyAwarePolicy"),
    ("jobs", "vcjob", "batch.volcano.sh/v1alpha1", True, "Job"),
    ("jobsets", "", "jobset.x-k8s.io/v1alpha2", True, "JobSet"),
]
#: Groups of extensions, whose lists name apiVersion and kind in every item.
_EXTENSIONS = (
    "scheduling.volcano.sh",
    "scheduling.x-k8s.io",
    "topology.node.k8s.io",
    "kueue.x-k8s.io",
    "config.nri",
    "autoscaling.x-k8s.io",
    "batch.volcano.sh",
    "jobset.x-k8s.io",
)


@dataclass
class Server:
    """``objects``: all there are. ``lacking``: kinds it does not have. ``forbidden``: paths that the user may not list. ``errors``: path ->
    (HTTP status, reason, message); ``later``: the same for all but the first page. ``expires``: how many pages are given before a continue
    token is too old. ``context``: kubectl's current one; ``namespace``: the one that it names. ``version``: the server's.
    ``warn``: a warning header. ``faults``: path, or ``api-resources`` -> what the stand-in does instead (stdout, stderr,
    pauses, sleep, exit, signal)."""

    objects: list[Object] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)
    errors: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    later: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    expires: int = 10**9
    context: str = "office"
    namespace: str = ""
    version: str = "v1.32.4"
    warn: str = ""
    faults: dict[str, Object] = field(default_factory=dict)

    def table(self) -> list[tuple[str, str, str, bool, str]]:
        return [row for row in TABLE if row[4] not in self.lacking]

    def resources(self) -> str:
        """The table of ``kubectl api-resources --verbs=list --no-headers``."""
        return "".join(
            f"{plural:<40}{short:<14}{version:<34}{str(namespaced).lower():<6}{kind}\n"
            for plural, short, version, namespaced, kind in self.table()
            if kind != "Binding"
        )

    def answer(self, url: str) -> tuple[int, Object]:
        """Status and body of a GET."""
        parts = urlsplit(url)
        if parts.path == "/version" and parts.path not in self.forbidden and parts.path not in self.errors:
            return 200, {"major": "1", "minor": "32", "gitVersion": self.version}
        if parts.path in self.forbidden:
            plural = parts.path.rpartition("/")[2]
            return failure(403, "Forbidden", f'{plural} is forbidden: User "dev" cannot list resource "{plural}"')
        if parts.path in self.errors:
            return failure(*self.errors[parts.path])
        if parts.path in self.later and "continue" in parts.query:
            return failure(*self.later[parts.path])
        steps = parts.path.strip("/").split("/")
        version, steps = ("v1", steps[2:]) if steps[0] == "api" else ("/".join(steps[1:3]), steps[3:])
        if steps[:1] == ["namespaces"] and len(steps) == 2:
            return self._named(steps[1])
        namespace = steps[1] if len(steps) == 3 else None
        for row in self.table():
            if steps[-1:] == [row[0]] and row[2] == version:
                return self._list(row, namespace, {key: value[0] for key, value in parse_qs(parts.query).items()})
        return failure(404, "NotFound", "the server could not find the requested resource")

    def _named(self, name: str) -> tuple[int, Object]:
        for each in self.objects:
            if (each["kind"], each["metadata"]["name"]) == ("Namespace", name):
                return 200, each
        return failure(404, "NotFound", f'namespaces "{name}" not found')

    def _list(self, row: tuple[str, str, str, bool, str], namespace: str | None, query: dict[str, str]) -> tuple[int, Object]:
        version, kind = row[2], row[4]
        group = version.rpartition("/")[0]
        found = [o for o in self.objects if o["kind"] == kind and o["apiVersion"].rpartition("/")[0] == group]
        found = [o for o in found if namespace is None or o["metadata"].get("namespace") == namespace]
        limit, start = int(query.get("limit", 0)), int(query.get("continue", "0").partition("=")[0])
        if limit and start >= limit * self.expires:
            return failure(410, "Expired", "The provided continue parameter is too old to display a consistent list result.")
        end = start + limit if limit else len(found)
        metadata = {"resourceVersion": "7", **({"continue": f"{end}=+/&"} if end < len(found) else {})}
        items = found[start:end]
        if group not in _EXTENSIONS:
            items = [{k: v for k, v in each.items() if k not in ("apiVersion", "kind")} for each in items]
        return 200, {"kind": f"{kind}List", "apiVersion": version, "metadata": metadata, "items": items}

    def discovery(self, path: str) -> Object | None:
        """The documents from which kubectl learns the available kinds."""
        versions = sorted({row[2] for row in self.table() if "/" in row[2]})
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/version":  # asked by kubectls that choose another of their kind, to fit the server
            return {"major": "1", "minor": "32", "gitVersion": "v1.32.4"}
        if path == "/apis":
            named = [(version.partition("/")[0], {"groupVersion": version, "version": version.partition("/")[2]}) for version in versions]
            groups = {
                name: {"name": name, "versions": [v for n, v in named if n == name], "preferredVersion": first} for name, first in named
            }
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups.values())}
        version = path.removeprefix("/apis/") if path != "/api/v1" else "v1"
        rows = [row for row in self.table() if row[2] == version]
        resources = [
            {"name": plural, "singularName": "", "namespaced": namespaced, "kind": kind, "shortNames": [short] if short else []}
            | {"verbs": ["create"] if kind == "Binding" else ["get", "list"]}
            for plural, short, _, namespaced, kind in rows
        ]
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources} if rows else None


def failure(code: int, reason: str, message: str) -> tuple[int, Object]:
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}


_PROGRAM = """#!/bin/sh
all= count=0
for word; do
  all="$all, \\"$word\\""
  case "$word" in
    --*=*[!A-Za-z0-9_./-]*) count=9 ;;
    --context=* | --kubeconfig=*) ;;
    proxy) exit 1 ;;
    *) count=$((count + 1)) && eval "word$count=\\$word" ;;
  esac
done
if [ $count = 3 ] && [ -f "{folder}/answers/$word1/$word3" ]; then
  printf '[%s]\\n' "${{all#, }}" >> "{folder}/state.json.log"
  exec cat "{folder}/answers/$word1/$word3"
fi
export KUBECTL_STATE="{folder}/state.json"
exec {python} -I -S {script} "$@"
"""


def install(folder: Path, server: Server, name: str = "kubectl") -> Path:
    """Put the stand-in and its server into a folder; gives the program. Plain answers are written down at once: a capture takes two dozen
    calls, and an interpreter for each is most of its time."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps(asdict(server)))
    shutil.rmtree(folder / "answers", ignore_errors=True)
    for path, text in _plain(server):
        file = folder / "answers" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    program = folder / name
    program.write_text(_PROGRAM.format(folder=folder, python=sys.executable, script=Path(__file__).resolve()))
    program.chmod(0o755)
    return program


def _plain(server: Server) -> Iterator[tuple[str, str]]:
    """The first pages that come without any trouble, by verb and last argument."""
    if server.warn:
        return
    if "api-resources" not in server.faults:
        yield "api-resources/--no-headers", server.resources()
    if not {"/version"} & {*server.faults, *server.forbidden, *server.errors}:
        yield "get/version", json.dumps(server.answer("/version")[1])
    spaces = [f"/namespaces/{each['metadata']['name']}" for each in server.objects if each["kind"] == "Namespace"]
    for plural, _, version, namespaced, _ in server.table():
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for space in ["", *spaces] if namespaced else [""]:
            path = f"{base}{space}/{plural}"
            if path in server.faults or path in server.errors or path in server.forbidden:
                continue
            yield f"get{path}?limit=500", json.dumps(server.answer(f"{path}?limit=500")[1])


def calls(folder: Path) -> list[list[str]]:
    """The arguments of each call so far."""
    log = folder / "state.json.log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def main(arguments: list[str]) -> int:
    state = Path(os.environ["KUBECTL_STATE"])
    with Path(f"{state}.log").open("a") as log:
        print(json.dumps(arguments), file=log)
    server = Server(**json.loads(state.read_text()))
    match [each for each in arguments if not each.startswith(("--context=", "--kubeconfig="))]:
        case ["api-resources", "--verbs=list", "--no-headers"]:
            fault = server.faults.get("api-resources")
            output, code = server.resources(), 200
        case ["config", "current-context"]:
            fault, code, output = server.faults.get("current-context"), 200, f"{server.context}\n"
            if not server.context:
                print("error: current-context is not set", file=sys.stderr)
                return 1
        case ["config", "view", "--minify", _]:
            fault, code, output = None, 200, server.namespace
        case ["get", "--raw", url]:
            fault = server.faults.get(urlsplit(url).path)
            code, body = server.answer(url) if fault is None or not isinstance(fault.get("stdout"), str) else (200, {})
            output = json.dumps(body)
        case _:
            print(f"error: unknown command {arguments}", file=sys.stderr)
            return 2
    if server.warn:
        print(f"Warning: {server.warn}", file=sys.stderr)
    if fault is not None:
        return misbehave(fault, output)
    if code != 200:
        print(f"Error from server ({body['reason']}): {body['message']}", file=sys.stderr)
        return 1
    sys.stdout.write(output)
    return 0


def misbehave(fault: Object, output: str) -> int:
    """``stdout``: what to write, or how many characters of the right answer; ``pauses``: seconds before each tenth of it."""
    given = fault.get("stdout", len(output))
    text = output[:given] if isinstance(given, int) else given
    print(fault.get("stderr", ""), end="", file=sys.stderr, flush=True)
    step = -(-len(text) // 10) or 1
    for start in range(0, len(text), step):
        time.sleep(fault.get("pauses", 0))
        sys.stdout.write(text[start : start + step])
        sys.stdout.flush()
    time.sleep(fault.get("sleep", 0))
    if "signal" in fault:
        os.kill(os.getpid(), fault["signal"])
    return int(fault.get("exit", 0))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        os._exit(1)
