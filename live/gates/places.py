"""Assignment of the cluster's pods to the pods of a placement, recorded in the journal because most pods get new names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubestow.live.api.answers import Api, Object, ServerAnswer
from kubestow.live.apply.journal import Journal
from kubestow.live.gates.fitting import Release
from kubestow.live.gates.gated_pods import as_read, controller_uid, is_held, is_living, key_of, letting_go, node_of, path_of
from kubestow.live.gates.replica_groups import ReplicaReader, replica_groups
from kubestow.models.execution.template_nodes import TemplateNodes

#: Statuses of a retry whose first attempt was executed.
_ALREADY_DONE: Final = (404, 409)


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod of the document.

    Attributes:
        step: Position in the bind order; 0 for a pod that ran before.
        pod: The pod as named by the document.
        node: Its node in the document.
    """

    step: int
    pod: str
    node: str


#: A place and the uid of a controller. During a rollout, each ReplicaSet of a Deployment has all places.
_Slot = tuple[PodPlace, str]


@dataclass
class GatePlaces:
    """The places of a placement and the pods that take them.

    Attributes:
        journal: Records every change.
        of: Returns the API for requests about a step and a pod.
        cluster: The cluster.
        templates: Workloads of the placement.
    """

    journal: Journal
    of: Callable[[int, str], Api]
    cluster: ReplicaReader
    templates: Sequence[TemplateNodes]
    _taken: dict[_Slot, str] = field(default_factory=dict)
    _slots: dict[str, _Slot] = field(default_factory=dict)
    _sent: set[str] = field(default_factory=set)
    _done: set[str] = field(default_factory=set)

    async def resume(self) -> None:
        """Restore the state from the journal."""
        known = {(place.step, place.pod): place for template in self.templates for place in _places(template)}
        for key, step in list(self.journal.progress.steps.items()):
            if step.uid is None or key not in known:
                continue
            pod = self.cluster.pod(step.uid)
            if pod is None:
                await self._gone(known[key], step.uid)
                continue
            self._take((known[key], controller_uid(pod)), step.uid)
            self._sent.add(step.uid)
            if step.done:
                self._done.add(step.uid)

    async def see(self) -> None:
        """Record pods that have reached their nodes, and include pods that were released by others or ran before."""
        for template in self.templates:
            for replicas in replica_groups(self.cluster, template):
                for pod in replicas.pods:
                    if not is_held(pod) and node_of(pod) and pod["metadata"]["uid"] not in self._slots:
                        await self._adopt(template, pod)
        for uid, (place, _) in list(self._slots.items()):
            found = self.cluster.pod(uid)
            if place.step and uid not in self._done and found is not None and found["spec"].get("nodeName") == place.node:
                self._done.add(uid)
                await self.journal.fact("done", step=place.step, pod=place.pod, now=key_of(found), uid=uid)

    async def let_go(self, release: Release, pod: Object) -> ServerAnswer | None:
        """Release a pod, given as last read. Return None if its place is taken by another pod that may have been released."""
        uid = pod["metadata"]["uid"]
        slot = self._slots.get(uid)
        if slot is None or slot[0].node != release.node:
            slot = self._free(release.template, release.node, pod, release.order)
            if slot is None:
                return None
            before = self._taken.get(slot)
            self._take(slot, uid)
            if (before or slot[0].step == 0) and not self._lives(before, slot[0].pod):
                await self._gone(slot[0], before)
        await self._stands(slot[0], pod)
        self._sent.add(uid)
        answer = await self.api(release).send("PATCH", path_of(pod), letting_go(pod, release.node))
        if 300 <= answer.code < 500 and answer.code not in _ALREADY_DONE:
            self._sent.discard(uid)
        return answer

    def api(self, release: Release) -> Api:
        """Return the API for requests about a pod with a place."""
        place, _ = self._slots[release.pod["metadata"]["uid"]]
        return self.of(place.step, place.pod)

    async def undo(self, template: TemplateNodes, obj: Object) -> None:
        """Record that a workload is about to be deleted."""
        metadata = {"namespace": template.namespace, "name": template.name, "uid": obj["metadata"]["uid"]}
        message = f"deleting {template.ref}, which did not become whole"
        await self.journal.fact("undo", object={"kind": template.kind, "metadata": metadata}, message=message)

    # --- places -------------------------------------------------------------------------------------------------------

    def _take(self, slot: _Slot, uid: str) -> None:
        old = self._slots.get(uid)
        if old is not None and self._taken.get(old) == uid:
            del self._taken[old]
        self._taken[slot], self._slots[uid] = uid, slot

    def _free(self, template: TemplateNodes, node: str, pod: Object, order: int) -> _Slot | None:
        """Return a free place on a node; None if there is none. Prefer the pod's own, then unused ones, then that of ``order``."""
        key, owner = key_of(pod), controller_uid(pod)
        found = [(place, owner) for place in _places(template) if place.node == node and (not template.by_name or place.pod == key)]
        free = [slot for slot in found if self._is_free(slot)]
        rank = {slot: (slot[0].pod != key, slot in self._taken, slot[0].step != order, not slot[0].step, slot[0].step) for slot in free}
        return min(free, key=rank.__getitem__, default=None)

    def _is_free(self, slot: _Slot) -> bool:
        uid = self._taken.get(slot)
        found = self.cluster.pod(uid) if uid is not None else None
        return found is None or not is_living(found) or (is_held(found) and uid not in self._sent)

    def _lives(self, uid: str | None, key: str) -> bool:
        """Return True if the pod that had a place still lives; without a uid it is found by name."""
        if uid is not None:
            found = self.cluster.pod(uid)
        else:
            namespace, _, name = key.partition("/")
            found = self.cluster.named("Pod", name, namespace)
        return found is not None and is_living(found)

    async def _adopt(self, template: TemplateNodes, pod: Object) -> None:
        slot = self._free(template, node_of(pod), pod, 0)
        if slot is not None:
            self._take(slot, pod["metadata"]["uid"])
            self._sent.add(pod["metadata"]["uid"])
            if slot[0].step:
                await self._stands(slot[0], pod)

    async def _stands(self, place: PodPlace, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        await self.journal.fact("replacement", step=place.step, pod=place.pod, now=key_of(pod), uid=uid, object=as_read(pod))

    async def _gone(self, place: PodPlace, uid: str | None) -> None:
        await self.journal.fact("gone", step=place.step, pod=place.pod, uid=uid)


def _places(template: TemplateNodes) -> list[PodPlace]:
    placed = [PodPlace(assignment.order, assignment.pod, assignment.node) for assignment in template.assignments]
    return [*placed, *(PodPlace(0, pod, node) for pod, node in template.ran.items())]
