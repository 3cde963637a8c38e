"""The replay of a journal whose run removed scheduling gates from the pods of manifests.

One change releases a gated pod to the node of the planned pod that it represents. The change removes the gate, adds
the node to each required term of node affinity, and names it in an annotation. The journal records what the run
read of the pod (``replacement``). The change must follow from that record; the API server refuses it if the pod has
changed since.

Source: pkg/apis/core/validation (updates of gated pods).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubestow.checker.journal.replay import ClusterPod, JournalReplay
from kubestow.checker.journal.requests import ParsedRequest, ask_of, at, deleted
from kubestow.checker.journal.tasks import Gated, PodTask, Tasks
from kubestow.models.documents.journal import Answered, Fact, Record, Request

GATE: Final = "kubestow.dev/placement"
PLACED_ON: Final = "kubestow.dev/placed-on"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_KEPT_NAMES: Final = ("StatefulSet", "Pod")
#: Kinds whose pods several ReplicaSets or Jobs may own at once, each with as many pods as the workload.
_KINDS_WITH_SEVERAL_OWNERS: Final = ("Deployment", "CronJob")
#: Characters of a generated name that the API server keeps before it adds five random ones.
_GENERATED_NAME_PREFIX_CHARACTERS: Final = 58
_REFUSED: Final = range(300, 500)
_REPEATED_CODES: Final = (404, 409)

_Fault = tuple[str, str, str]
_Key = tuple[int, str]
#: A task and the controller of the pods that may fill it.
_Slot = tuple[_Key, str]


class GatedReplay(JournalReplay):
    """The replay of one journal.

    Attributes:
        seen_gone: Uids of pods that the journal reports as gone.
    """

    def __init__(self, record: Record, tasks: Tasks, gated: Gated) -> None:
        super().__init__(record, tasks)
        self.seen_gone: set[str] = set()
        self._gated = gated
        self._read: dict[str, Mapping[str, Any]] = {}  # recorded objects of pods, by uid
        self._slots: dict[str, _Slot] = {}  # slots of pods, by uid
        self._holders: dict[_Slot, str] = {}  # uid of the pod that may have been released to each slot
        self._released: set[str] = set()  # uids of released pods
        self._doomed: dict[str, str] = {}  # uids of workloads that are to be deleted
        self._members = Counter((task.step, gated.gangs.get(task.pod)) for task in gated.places.values())
        for key, task in gated.places.items():
            if not task.step:
                pod = tasks.pods[task.pod]
                owner = next((str(each.uid or "") for each in pod.metadata.ownerReferences or () if each.controller), "")
                self.state.stands[task.pod] = ClusterPod(task.pod, tasks.uid(task.pod))
                self._holders[key, self._owner_of(task, owner)] = tasks.uid(task.pod) or task.pod

    # --- requests -----------------------------------------------------------------------------------------------------

    def _request(self, number: int, request: Request) -> Iterator[_Fault]:
        ask, task = ask_of(request), self._place(request.step, request.pod)
        self.state.sent[request.number] = (number, request, ask)
        if "dryRun" in request.params:
            return
        if self.state.over:
            yield request.pod or "", "", f"{request.method} {request.path} after the run had ended"
        if (ref := deleted(request)) is not None:
            yield from (("", "", why) for why in self._delete(ref, request.body))
        elif ask.kind not in ("pod", "binding"):
            yield request.pod or "", "", f"{request.method} {request.path}: nothing that takes gates off"
        elif task is None:
            yield ask.key, "", "the pod is changed, and the journal does not say which pod of the placement it represents"
        else:
            key = (task.step, task.pod)
            whys = list(self._let_go(ask, request, task) if ask.kind == "pod" else self._bind_partner(ask, task))
            yield from ((task.pod, task.place, why) for why in whys)
            if ask.kind == "pod":
                self.state.requested_evictions[key] += 1
                self._holders.setdefault(self._slots.get(self._uid(task), (key, "")), self._uid(task))

    def _let_go(self, ask: ParsedRequest, request: Request, task: PodTask) -> Iterator[str]:
        """Yield faults of a change that releases a pod."""
        stands, uid = self.state.stands.get(task.pod), self._uid(task)
        read = self._read.get(uid)
        if stands is None or read is None or self._slots.get(uid, (None,))[0] != (task.step, task.pod):
            yield f"{ask.key} is let go, and the journal does not say that it represents {task.pod}"
            return
        if request.patch != "merge":
            yield f"the change of {ask.key} is no merge patch"
        if ask.key != stands.key:
            yield f"{ask.key} is let go, the pod that represents {task.pod} is {stands.key}"
        holder = self._holders.get(self._slots[uid], uid)
        if holder != uid:
            yield f"{ask.key} is let go to {task.target} in the place of another pod (uid {holder}) that is there: more than planned"
        if uid in self._released:
            yield f"{ask.key} was let go before"
        wanted = _wanted(uid, read, task.target)
        if wanted is None:
            yield f"{ask.key} is changed, and was not behind the gate"
        else:
            yield from (f"{name} of {ask.key} is {why}" for name, why in _differences("", wanted, ask.body))

    def _bind_partner(self, ask: ParsedRequest, task: PodTask) -> Iterator[str]:
        """Yield faults of a Binding.

        Bindings are only for gang members that share a place in the bind order, because no scheduler binds them one by one.
        """
        stands, uid = self.state.stands.get(task.pod), self._uid(task)
        gang = self._gated.gangs.get(task.pod)
        if gang is None or self._members[task.step, gang] < 2:
            yield f"a Binding of {ask.key}, which shares its place in the bind order with no other pod of its gang"
        if uid not in self._released:
            yield f"a Binding of {ask.key} before it was let go"
        if stands is None or ask.key != stands.key:
            yield f"a Binding of {ask.key}, the pod that represents {task.pod} is {stands.key if stands else 'not known'}"
        wanted = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": ask.name, "namespace": ask.namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": task.target},
        }
        yield from (f"{name} of the Binding of {ask.key} is {why}" for name, why in _differences("", wanted, ask.body))

    def _delete(self, ref: str, body: object) -> Iterator[str]:
        """Yield faults of the deletion of a workload."""
        uid = self._doomed.get(ref)
        if ref not in self._gated.workloads:
            yield f"{ref} is deleted, which is none of the manifests"
        if uid is None:
            yield f"{ref} is deleted, and the journal does not say that this was asked for (--undo)"
        if ref in self._gated.existed:
            yield f"{ref} is deleted, which was there before"
        gangs = {self._gated.gangs[pod] for pod, of in self._gated.refs.items() if of == ref and pod in self._gated.gangs}
        ours = [key for key in self._tasks.all if self._gated.refs.get(key[1]) == ref or self._gated.gangs.get(key[1]) in gangs]
        if all(key in self.state.done for key in ours):
            yield f"{ref} is deleted, and is whole"
        wanted = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": {"uid": uid}}
        yield from (f"{name} of the deletion of {ref} is {why}" for name, why in _differences("", wanted, body))

    # --- answers and facts --------------------------------------------------------------------------------------------

    def _answer(self, line: Answered) -> Iterator[_Fault]:
        _, request, ask = self.state.sent.pop(line.number)
        task = self._place(request.step, request.pod)
        if ask.kind != "pod" or task is None or "dryRun" in request.params:
            return
        uid = str(ask.get("metadata", "uid"))
        if 200 <= line.code < 300:
            self._released.add(uid)
            self.state.bound.add((task.step, task.pod))
        elif line.code in _REFUSED and line.code not in _REPEATED_CODES and uid not in self._released:
            self.state.requested_evictions[task.step, task.pod] -= 1
            self._leave(uid)
        return
        yield

    def _fact(self, number: int, fact: Fact) -> Iterator[_Fault]:
        if fact.what == "end":
            self.state.over = True
        elif fact.what == "undo":
            ref = f"{at(fact.object, 'kind')} {at(fact.object, 'metadata', 'namespace')}/{at(fact.object, 'metadata', 'name')}"
            self._doomed[ref] = str(at(fact.object, "metadata", "uid"))
        elif fact.what in ("gone", "replacement", "done", "manifest"):
            task = self._place(fact.step, fact.pod)
            if task is None:
                yield fact.pod or "", "", f"step {fact.step} of {fact.pod} is said to be {fact.what}, and the placement has no such pod"
                return
            whys: Iterator[str] = iter(())
            if fact.what == "gone":
                self._lose(fact, task)
            elif fact.what == "replacement":
                whys = self._stand(fact, task)
            elif fact.what == "done":
                whys = self._settled(fact, task)
            yield from ((task.pod, task.place, why) for why in list(whys))
        elif fact.what in ("closed", "opened"):
            yield "", ", ".join(fact.nodes), f"nodes are {fact.what}, and taking gates off needs none of that"

    def _lose(self, fact: Fact, task: PodTask) -> None:
        """Record that a pod is gone and free its slot."""
        uid = fact.uid or self._tasks.uid(task.pod) or task.pod
        self.seen_gone.add(uid)
        self._leave(uid)
        for slot in [slot for slot, holder in self._holders.items() if holder == uid]:
            del self._holders[slot]
        if self._uid(task) == uid:
            self.state.done.discard((task.step, task.pod))

    def _stand(self, fact: Fact, task: PodTask) -> Iterator[str]:
        """Record that a pod represents a planned one, and yield the faults of that."""
        key, uid, now = (task.step, task.pod), fact.uid or "", fact.now or ""
        ref = self._gated.refs[task.pod]
        if not uid:
            yield f"{now} is said to represent the pod, without its uid"
        if not _is_named_after(now, task.pod, ref, self._gated.prefixes.get(ref)):
            yield f"{now} is said to represent the pod, and is not named like a pod of {ref}"
        known = self._gated.by_uid.get(uid)
        if known is not None and self._gated.refs.get(known) != ref:
            yield f"{now} is said to represent the pod, and is {known} of the snapshot"
        if uid in self.seen_gone:
            yield f"{now} is said to represent the pod, and was gone before"
        slot = (
            key,
            self._owner_of(task, str(at(next(iter(_listed(at(fact.object, "metadata", "ownerReferences"))), None), "uid") or "")),
        )
        if self._slots.get(uid, slot) != slot:
            if uid in self._released or not _is_held(fact.object):
                yield f"{now} is said to represent the pod, and was let go as {self._slots[uid][0][1]}"
            self._leave(uid)
        self._slots[uid], self._read[uid] = slot, fact.object or {}
        if not _is_held(fact.object):
            holder = self._holders.setdefault(slot, uid)  # released by somebody else
            if holder != uid:
                yield f"{now} is said to represent the pod, as does another pod (uid {holder}) that is there"
        self.state.stands[task.pod] = ClusterPod(now, uid)

    def _settled(self, fact: Fact, task: PodTask) -> Iterator[str]:
        """Record that a task is done, and yield the faults of that."""
        key, uid = (task.step, task.pod), self._uid(task)
        if fact.uid not in (None, uid):
            uid = str(fact.uid)
            if self._slots.get(uid, (None,))[0] != key:
                yield f"{fact.now} is said to have its node, and does not represent {task.pod}"
        if uid not in self._released and self._holders.get(self._slots.get(uid, (key, ""))) != uid:
            yield f"step {task.step} is said to be done, and its pod was never let go"
        self.state.done.add(key)
        self.state.bound.add(key)

    # --- slots --------------------------------------------------------------------------------------------------------

    def _place(self, step: int | None, pod: str | None) -> PodTask | None:
        return None if step is None or pod is None else self._gated.places.get((step, pod))

    def _uid(self, task: PodTask) -> str:
        stands = self.state.stands.get(task.pod)
        return (stands.uid or "") if stands is not None else ""

    def _owner_of(self, task: PodTask, owner: str) -> str:
        return owner if self._gated.refs[task.pod].partition(" ")[0] in _KINDS_WITH_SEVERAL_OWNERS else ""

    def _leave(self, uid: str) -> None:
        """Free the slot of a pod for others."""
        slot = self._slots.get(uid)
        if slot is not None and self._holders.get(slot) == uid:
            del self._holders[slot]


def _wanted(uid: str, read: Mapping[str, Any], node: str | None) -> dict[str, Any] | None:
    """Return the one change that releases a pod, or None if the pod was not gated."""
    if not _is_held(read):
        return None
    gates = [gate for gate in _listed(at(read, "spec", "schedulingGates")) if at(gate, "name") != GATE]
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms: list[Any] = []
    for term in _listed(at(read, "spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")):
        asks = at(term, "matchFields") or at(term, "matchExpressions")
        terms.append({**term, "matchFields": [*_listed(at(term, "matchFields")), only]} if asks else term)
    return {
        "metadata": {"uid": uid, "resourceVersion": at(read, "metadata", "resourceVersion") or "", "annotations": {PLACED_ON: node}},
        "spec": {
            "schedulingGates": gates or None,
            "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms or [{"matchFields": [only]}]}}},
        },
    }


def _differences(above: str, wanted: object, found: object) -> Iterator[tuple[str, str]]:
    """Yield the fields of a body that differ from the required ones, with their values."""
    if isinstance(wanted, dict) and isinstance(found, Mapping):
        for name in (*wanted, *(name for name in found if name not in wanted)):
            if name not in wanted:
                yield f"{above}{name}", "changed in addition"
            elif name not in found:
                yield f"{above}{name}", "left out"
            else:
                yield from _differences(f"{above}{name}.", wanted[name], found[name])
    elif type(wanted) is not type(found) or wanted != found:
        yield above.removesuffix(".") or "the body", f"{found!r}, expected {wanted!r}"


def _is_named_after(now: str, pod: str, ref: str, prefix: str | None) -> bool:
    """Return True if a pod has a name that its workload gives. ``prefix``: beginning of these names; None: the workload's name."""
    kind, _, workload = ref.partition(" ")
    namespace, _, name = workload.partition("/")
    there, _, own = now.partition("/")
    first = f"{name}-" if prefix is None else prefix
    return now == pod if kind in _KEPT_NAMES else there == namespace and own.startswith(first[:_GENERATED_NAME_PREFIX_CHARACTERS])


def _is_held(read: object) -> bool:
    return any(at(gate, "name") == GATE for gate in _listed(at(read, "spec", "schedulingGates")))


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
