"""Removal of gates: each held pod of a placement gets a node of its template; gangs are released whole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from kubestow.live.api.answers import Api, Object
from kubestow.live.gates.broken_rules import BrokenRuleRecord
from kubestow.live.gates.choice import Choice
from kubestow.live.gates.fitting import Fitting, Judge, Release
from kubestow.live.gates.gate_memory import GateMemory
from kubestow.live.gates.gated_pods import is_held, is_waiting, key_of, letting_go, node_of, path_of
from kubestow.live.gates.places import GatePlaces
from kubestow.live.gates.ready import ready
from kubestow.live.gates.replica_groups import ReplicaReader, asked_for, replica_groups, scaled_down
from kubestow.live.gates.undo import undo
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.execution.template_nodes import TemplateNodes

#: Workloads whose pods appear later than the workload.
_LATER: Final = ("CronJob", "PodTemplate")
_MAX_ATTEMPTS: Final = 4
#: Seconds without a release after which reasons are reported.
_REPORT_SECONDS: Final = 5.0
#: Seconds for the scheduler to bind a pod with devices before the next pod of its group is released.
_DEVICE_BIND_SECONDS: Final = 12.0


class ReleaseListener:
    """Receiver of events; this one ignores them."""

    def placed(self, pod: str, node: str | None) -> None:
        """Handle the release of a pod, to a node or (None) to one of the scheduler's choice."""

    def note(self, message: str) -> None:
        """Handle a message for the user."""


@dataclass(frozen=True)
class ReleaseOptions:
    """Options of a release.

    Attributes:
        timeout: Seconds for all planned pods to appear, fit and be bound; in :meth:`Gates.serve`, the maximum wait for a planned node.
        undo: True to delete workloads that do not become whole in time.
        pause: Seconds between two checks.
    """

    timeout: float = 600.0
    undo: bool = False
    pause: float = 0.2


@dataclass
class ReleaseOutcome:
    """The outcome of a release.

    Attributes:
        state: How it ended.
        placed: Released pods with their nodes.
        deviations: Deviations from the plan, one sentence each.
        undone: Deleted objects.
    """

    state: Literal["done", "stopped", "interrupted"]
    placed: dict[str, str] = field(default_factory=dict)
    deviations: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)


@dataclass
class Gates:
    """Application of a placement of manifests.

    Attributes:
        api: Sends requests.
        cluster: The watched cluster.
        placement: The placement.
        templates: :func:`kubestow.models.execution.template_nodes.template_nodes` of the placement.
        judge: The independent checker.
        options: Options of the release.
        listener: Receiver of events.
        ending: Event that ends the release; a gang under way is finished first.
        places: Records in a journal which pod represents which pod of the placement; None without a journal.
        holding: Memory of held pods.
    """

    api: Api
    cluster: ReplicaReader
    placement: Placement
    templates: Sequence[TemplateNodes]
    judge: Judge
    options: ReleaseOptions = field(default_factory=ReleaseOptions)
    listener: ReleaseListener = field(default_factory=ReleaseListener)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    places: GatePlaces | None = None
    holding: GateMemory = field(default_factory=GateMemory)

    def __post_init__(self) -> None:
        """Start without released pods."""
        self._placed: dict[str, str] = {}
        self._why: list[str] = []
        self._said: set[str] = set()
        self._refused: dict[str, str] = {}

    async def run(self) -> ReleaseOutcome:
        """Release all planned pods and wait until they are bound. Pods that are missing or do not fit in time stay held.

        Raises:
            Unreachable: there was no answer.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.options.timeout
        for template in self.templates:
            if template.kind in _LATER:
                self.say(f"{template.ref}: its pods appear later; use apply --serve")
        await self.cluster.refresh()
        if self.places is not None:
            await self.places.resume()
        try:
            return await self._run(deadline)
        finally:
            await self._see()

    async def _run(self, deadline: float) -> ReleaseOutcome:
        clock = asyncio.get_running_loop().time
        still = clock()
        while any(self._lacking(template) for template in self.templates):
            if self.ending.is_set():
                return ReleaseOutcome("interrupted", self._placed, [self._standing(t) for t in self.templates if self._lacking(t)])
            moved = await self.look()
            if clock() >= deadline:
                return await self._stopped()
            still = clock() if moved else still
            if clock() - still >= _REPORT_SECONDS:
                for text in self._why:
                    self.say(text)
            if not moved:
                await self.news(min(_REPORT_SECONDS, deadline - clock()))
        for text in filter(None, (scaled_down(self.cluster, template) for template in self.templates)):
            self.say(text)
        return ReleaseOutcome("done", self._placed)

    async def serve(self) -> None:
        """Release pods as they appear, until ended.

        Only gangs that were never whole are held indefinitely. A pod beyond the planned number, or one that fits no planned node, is
        finally released without a node. The same applies to a gang that was whole before.

        Raises:
            Unreachable: there was no answer.
        """
        await self.cluster.refresh()
        policy = self.placement.policy or DEFAULT
        exempt = tuple(self.placement.snapshot.daemonNamespaces)
        rules = BrokenRuleRecord(self.cluster, policy.executionGraceSeconds, exempt, self.listener.note)
        while not self.ending.is_set():
            await rules.look(asyncio.get_running_loop().time())
            if not await self.look(free_after=self.options.timeout):
                await self.news(max(1.0, self.options.pause))

    async def look(self, *, free_after: float | None = None) -> bool:
        """Release the pods that may go now. Return True if any was released.

        ``free_after``: seconds after which a pod that fits no planned node is released without one, or at once if none of its nodes exists.
        None: such pods stay behind the gate.
        """
        await self._see()
        chosen = await self._choose()
        if chosen.accepted or self._freed(chosen, free_after):
            # A removed gate cannot be restored, and kinds are watched separately, so a node may be gone although a later pod is visible.
            await self.cluster.refresh()
            chosen = await self._choose()
        went: list[Object] = []
        if chosen.fitting is not None:
            went = await self._let_go(chosen.accepted, chosen.fitting)
            for members in chosen.whole(went):
                self.holding.let_go(self.cluster, members)
        freed = self._freed(chosen, free_after)
        sent = await asyncio.gather(*(self._send(pod) for pod in freed))
        for pod in (pod for pod, done in zip(freed, sent, strict=True) if done):
            self.listener.placed(key_of(pod), None)
            went.append(pod)
        for pod in (*chosen.ready.beyond, *chosen.ready.extra) if free_after is None else ():
            self.say(f"Pod {key_of(pod)} exceeds the pods of the placement, and stays behind the gate")
        for text in (*self._stranded(), *(self._why if free_after is not None else ())):
            self.say(text)
        if went:
            await self.cluster.refresh()
        self._remind(chosen, free_after)
        return bool(went)

    async def _choose(self) -> Choice:
        """Return the pods that may be released in the known state of the cluster."""
        found = ready(self.cluster, self.templates)
        self.holding.see(self.cluster, self.templates, found)
        self._why = [*found.waiting.values()]
        candidates = [*found.together, *found.alone]
        if not candidates:
            return Choice(found)
        fitting = await Fitting(self.cluster, self.placement, self.templates, self.judge).look()
        accepted = fitting.accepted(candidates)
        keys = {release.key for release in accepted}
        for release in found.alone:
            if release.key not in keys:
                accepted += self._elsewhere(fitting, release, accepted)
        keys = {release.key for release in accepted}
        behind: dict[str, list[Release]] = {}
        for release in candidates:
            if release.key not in keys:
                behind.setdefault(release.group, []).append(release)
        accepted = fitting.in_turn(accepted)
        self._why = [*found.waiting.values(), *dict.fromkeys(fitting.why.values())]
        never = frozenset(gang for gang, members in found.gangs.items() if not self.holding.was_whole(self.cluster, members))
        return Choice(found, accepted, [*behind.values()], fitting, never)

    async def news(self, seconds: float) -> None:
        """Wait for a change of the cluster up to this time, and briefly for related changes."""
        first_check = iter([None])
        change = asyncio.ensure_future(self.cluster.until(lambda: next(first_check, True), max(0.0, seconds)))
        end = asyncio.ensure_future(self.ending.wait())
        try:
            await asyncio.wait([change, end], return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
            end.cancel()
        await asyncio.sleep(min(self.options.pause, max(0.0, seconds)))

    def say(self, text: str) -> None:
        """Pass a message to the listener, once."""
        if text not in self._said:
            self._said.add(text)
            self.listener.note(text)

    # --- pods that their node does not take ---------------------------------------------------------------------------------

    def _elsewhere(self, fitting: Fitting, release: Release, others: Sequence[Release]) -> list[Release]:
        """Return the release to another node with missing pods of the template, if it fits there."""
        template = release.template
        replicas = next((each for each in replica_groups(self.cluster, template) if release.pod in each.pods), None)
        if template.by_name or replicas is None:
            return []
        used_nodes = [other.node for other in others if other.template.ref == template.ref]
        short, why = replicas.short(), fitting.why.pop(release.group, "")
        for node in dict.fromkeys(short):
            other = replace(release, node=node)
            if node != release.node and short.count(node) > used_nodes.count(node) and other in fitting.accepted([*others, other]):
                return [other]
            fitting.why.pop(release.group, None)
        fitting.why[release.group] = why
        return []

    def _freed(self, chosen: Choice, seconds: float | None) -> list[Object]:
        """Return the pods to release without a node now."""
        if seconds is None:
            return []
        late = [group for group in chosen.behind if chosen.goes_free(group) and self._is_late(group, seconds)]
        return [*chosen.ready.beyond, *(release.pod for group in late for release in group)]

    def _is_late(self, group: Sequence[Release], seconds: float) -> bool:
        """Return True if these pods have waited long enough for planned nodes, or none of these nodes exists."""
        waited = self.holding.refuse([release.pod for release in group])
        planned = {node for each in group for node in ([each.node] if each.template.by_name else each.template.nodes)}
        return waited >= seconds or all(self.cluster.named("Node", node) is None for node in planned)

    def _remind(self, chosen: Choice, free_after: float | None) -> None:
        """Print a reminder for each pod that has been held for another interval."""
        reasons = chosen.reasons(self.holding, self._refused, free_after)
        for text in self.holding.reminders(self.cluster, self.templates, reasons):
            self.listener.note(text)

    def _stranded(self) -> list[str]:
        """Return a sentence for each released pod whose node is gone. Neither its gate nor its affinity can be restored."""
        waiting = [
            pod
            for template in self.templates
            for replicas in replica_groups(self.cluster, template)
            for pod in replicas.pods
            if is_waiting(pod)
        ]
        return [
            f"Pod {key_of(pod)} was let go to node {node_of(pod)}, which is gone: it stays Pending, and can only be deleted"
            for pod in waiting
            if self.cluster.named("Node", node_of(pod)) is None
        ]

    # --- letting go ---------------------------------------------------------------------------------------------------

    async def _let_go(self, releases: Sequence[Release], fitting: Fitting) -> list[Object]:
        needy = sorted((each for each in releases if fitting.wants_devices(each.key)), key=lambda release: release.order)
        others = [release for release in releases if release not in needy]
        sent = await asyncio.gather(*(self._send(release.pod, release) for release in others))
        went = [release for release, done in zip(others, sent, strict=True) if done]
        for release in needy:
            if went and went[-1] in needy:
                await self._bound(went[-1])
            if await self._send(release.pod, release):
                went.append(release)
        for release in went:
            self._placed[release.key] = release.node
            self.listener.placed(release.key, release.node)
        joint = [each for each in went if fitting.together(each, releases) and not fitting.needs_scheduler(each)]
        await asyncio.gather(*(self._bind(release) for release in joint))
        return [release.pod for release in went]

    async def _bound(self, release: Release) -> None:
        """Wait until the scheduler has bound a released pod, or for a time limit. Its group is released whole in either case."""
        clock = asyncio.get_running_loop().time
        end = clock() + _DEVICE_BIND_SECONDS
        while clock() < end and not self.ending.is_set():
            found = self.cluster.pod(release.pod["metadata"]["uid"])
            if found is None or found["spec"].get("nodeName"):
                return
            await self.news(end - clock())

    async def _see(self) -> None:
        if self.places is not None:
            await self.places.see()

    async def _send(self, pod: Object, release: Release | None = None) -> bool:
        """Remove the gate, with the node of a release or without one. Return True on success. A changed pod is read again."""
        for _ in range(_MAX_ATTEMPTS):
            if release is None or self.places is None:
                answer = await self.api.send("PATCH", path_of(pod), letting_go(pod, release.node if release is not None else None))
            elif (sent := await self.places.let_go(release, pod)) is not None:
                answer = sent
            else:
                return False  # until the state of the pod in its place is known
            if answer.ok:
                return True
            if answer.code != 409:
                if answer.code != 404:
                    self._refused[pod["metadata"]["uid"]] = f"it cannot be let go: {answer.message}"
                    self.say(f"Pod {key_of(pod)} cannot be let go: {answer.message}")
                return False
            await self.cluster.refresh()
            found = self.cluster.pod(pod["metadata"]["uid"])
            if found is None or not is_held(found):
                return False  # gone, or released by somebody else
            pod = found
        return False

    async def _bind(self, release: Release) -> None:
        """Bind a pod that no scheduler would place before its partners. If the scheduler was faster, that is fine."""
        metadata = {key: release.pod["metadata"][key] for key in ("name", "namespace", "uid")}
        target = {"apiVersion": "v1", "kind": "Node", "name": release.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        api = self.api if self.places is None else self.places.api(release)
        answer = await api.send("POST", f"{path_of(release.pod)}/binding", body)
        if not answer.ok and answer.code not in (404, 409):
            self.say(f"Pod {release.key} cannot be bound: {answer.message}")

    # --- the end ------------------------------------------------------------------------------------------------------

    def _lacking(self, template: TemplateNodes) -> int:
        """Return the number of planned pods of a workload that are not bound."""
        if template.kind in _LATER:
            return 0
        newest = replica_groups(self.cluster, template)[-1:]
        bound = sum(bool(pod["spec"].get("nodeName")) for replicas in newest for pod in replicas.pods) + sum(
            replicas.over for replicas in newest
        )
        return max(0, asked_for(self.cluster, template) - bound)

    async def _stopped(self) -> ReleaseOutcome:
        """Return the outcome after the time limit. With --undo, delete incomplete workloads."""
        lacking = [template for template in self.templates if self._lacking(template)]
        outcome = ReleaseOutcome("stopped", self._placed, [self._standing(template) for template in lacking])
        outcome.deviations += self._why
        if self.options.undo:
            gangs = {template.gang for template in lacking if template.gang}
            doomed = [t for t in self.templates if t in lacking or t.gang in gangs]
            keep = self.places.undo if self.places is not None else None
            outcome.undone = await undo(self.api, self.cluster, doomed, self.say, keep)
        return outcome

    def _standing(self, template: TemplateNodes) -> str:
        newest = replica_groups(self.cluster, template)[-1:]
        pods = [pod for replicas in newest for pod in replicas.pods]
        gated = [pod for pod in pods if is_held(pod)]
        given = [f"{key_of(pod)} waits for {node_of(pod)}" for pod in pods if not is_held(pod) and not pod["spec"].get("nodeName")]
        desired = asked_for(self.cluster, template)
        text = f"{template.ref}: {desired - self._lacking(template)} of {desired} pods are bound, {len(gated)} behind the gate"
        return f"{text}; let go, but not bound: {', '.join(given[:3])}{' …' if len(given) > 3 else ''}" if given else text
