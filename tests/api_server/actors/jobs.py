"""The Job controller: it replaces terminated and terminating pods until there are enough completions."""

from __future__ import annotations

from typing import Any

from tests.api_server.actors.worker import Controller
from tests.api_server.resources import JOBS, PODS
from tests.api_server.store import is_active, is_ready
from tests.api_server.writes.deleting import delete

Object = dict[str, Any]
_INDEX = "batch.kubernetes.io/job-completion-index"


def _index(pod: Object) -> int | None:
    found = (pod["metadata"].get("annotations") or {}).get(_INDEX)
    return None if found is None else int(found)


def _indices(text: str | None) -> set[int]:
    """Return the indices in ``status.completedIndexes``, such as ``0,2-4``."""
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _ranges(numbers: set[int]) -> str:
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


class Jobs(Controller):
    """A controller that keeps up to ``parallelism`` pods. Pods of an indexed Job get the lowest free indices."""

    resource = JOBS

    def work(self, key: str) -> None:
        job = self.current(key)
        if job is None:
            return
        spec, status = job.get("spec") or {}, job.get("status") or {}
        if any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in status.get("conditions") or ()):
            return
        pods = self.core.store.pods_of(job["metadata"]["uid"])
        ended = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Succeeded"]
        indices = _indices(status.get("completedIndexes")) | {i for i in map(_index, ended) if i is not None}
        indexed = spec.get("completionMode") == "Indexed"
        succeeded = len(indices) if indexed else max(int(status.get("succeeded") or 0), len(ended))
        completions = spec.get("completions")
        active = [pod for pod in pods if is_active(pod)]
        wanted = 1 if spec.get("parallelism") is None else int(spec["parallelism"])
        if completions is not None:
            wanted = min(wanted, int(completions) - succeeded)
        if spec.get("suspend"):
            wanted = 0
        counted = len(active)
        if spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy"):
            counted = sum(1 for pod in pods if (pod.get("status") or {}).get("phase") in ("Pending", "Running"))
        self._create(job, wanted - counted, indices | {i for i in map(_index, active) if i is not None})
        for pod in active[::-1][: max(0, len(active) - max(0, wanted))]:
            delete(self.core, self.caller, PODS, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        active = [pod for pod in self.core.store.pods_of(job["metadata"]["uid"]) if is_active(pod)]
        fields: Object = {"active": len(active), "ready": sum(map(is_ready, active)), "succeeded": succeeded}
        if indexed:
            fields["completedIndexes"] = _ranges(indices)
        if completions is not None and succeeded >= int(completions):
            fields["conditions"] = [{"type": "Complete", "status": "True"}]
        self.set_status(JOBS, key, **fields)

    def _create(self, job: Object, number: int, taken: set[int]) -> None:
        metadata, spec = job["metadata"], job.get("spec") or {}
        indexed, index = spec.get("completionMode") == "Indexed", 0
        for _ in range(number):
            while index in taken:
                index += 1
            base = f"{metadata['name']}-{index}-" if indexed else f"{metadata['name']}-"
            pod = self.new_pod(job, spec.get("template") or {}, generateName=base)
            names = {"batch.kubernetes.io/job-name": metadata["name"], "job-name": metadata["name"]}
            labels = (pod["metadata"].get("labels") or {}) | names | {"batch.kubernetes.io/controller-uid": metadata["uid"]}
            if indexed:
                taken = taken | {index}
                labels[_INDEX] = str(index)
                pod["metadata"]["annotations"] = (pod["metadata"].get("annotations") or {}) | {_INDEX: str(index)}
            pod["metadata"]["labels"] = labels
            pod["spec"].setdefault("restartPolicy", "Never")
            if not self.create_pod(pod):
                return
