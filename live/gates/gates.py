"""Takes the gates off: each held pod of a placement gets a node of its template's, a gang only whole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from kubestow.live.api.answers import Api, Object
from kubestow.live.gates.broken_rules import BrokenRules
from kubestow.live.gates.choice import Choice
from kubestow.live.gates.crews import Cluster, asked_for, crews, scaled_down
from kubestow.live.gates.fitting import Fitting, Judge, Release
from kubestow.live.gates.held import is_held, is_waiting, key_of, letting_go, node_of, path_of
from kubestow.live.gates.holding import Holding
from kubestow.live.gates.places import Places
from kubestow.live.gates.ready import ready
from kubestow.live.gates.undo import undo
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.policy import DEFAULT
from kubestow.models.execution.template_nodes import TemplateNodes

#: Workloads whose pods do not come when the workload does.
_LATER: Final = ("CronJob", "PodTemplate")
_TRIES: Final = 4
#: Seconds without a pod that is let go, after which it is said what they wait for.
_SILENT: Final = 5.0
#: Seconds for the scheduler to bind a pod with devices before the next one of its group goes.
_TURN: Final = 12.0


class Listener:
    """Is told what happens; this one says nothing."""

    def placed(self, pod: str, node: str | None) -> None:
        """Take that a pod was let go: to a node, or to whichever the scheduler finds."""

    def note(self, message: str) -> None:
        """Take a sentence that a user should read."""


@dataclass(frozen=True)
class Options:
    """``timeout``: seconds for all planned pods to be there, to fit and to be bound; in :meth:`Gates.serve`, how long a pod waits for a
    planned node. ``undo``: what does not become whole in time is deleted. ``pause``: seconds between two looks."""

    timeout: float = 600.0
    undo: bool = False
    pause: float = 0.2


@dataclass
class Outcome:
    """``placed``: pods that were let go, with their nodes. ``left``: what is not as planned, a sentence each. ``undone``: the objects that
    were deleted."""

    state: Literal["done", "stopped", "interrupted"]
    placed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)


@dataclass
class Gates:
    """Carries out a placement of manifests. ``templates``: :func:`kubestow.models.execution.template_nodes.template_nodes` of it.
    ``ending``: when it is set, what is begun is finished, a gang whole, and nothing more is begun. ``places``: keeps in a journal which
    pods stand for those of the placement. ``holding``: remembers who is held."""

    api: Api
    cluster: Cluster
    placement: Placement
    templates: Sequence[TemplateNodes]
    judge: Judge
    options: Options = field(default_factory=Options)
    listener: Listener = field(default_factory=Listener)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    places: Places | None = None
    holding: Holding = field(default_factory=Holding)

    def __post_init__(self) -> None:
        """Begin with nothing done."""
        self._placed: dict[str, str] = {}
        self._why: list[str] = []
        self._said: set[str] = set()
        self._refused: dict[str, str] = {}

    async def run(self) -> Outcome:
        """Let all planned pods go, and wait until they are bound. What is not there in time, or does not fit by then, stays held.

        Raises:
            Unreachable: no answer came.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.options.timeout
        for template in self.templates:
            if template.kind in _LATER:
                self.say(f"{template.ref}: its pods come later, and are for apply --serve")
        await self.cluster.refresh()
        if self.places is not None:
            await self.places.resume()
        try:
            return await self._run(deadline)
        finally:
            await self._see()

    async def _run(self, deadline: float) -> Outcome:
        clock = asyncio.get_running_loop().time
        still = clock()
        while any(self._lacking(template) for template in self.templates):
            if self.ending.is_set():
                return Outcome("interrupted", self._placed, [self._standing(t) for t in self.templates if self._lacking(t)])
            moved = await self.look()
            if clock() >= deadline:
                return await self._stopped()
            still = clock() if moved else still
            if clock() - still >= _SILENT:
                for text in self._why:
                    self.say(text)
            if not moved:
                await self.news(min(_SILENT, deadline - clock()))
        for text in filter(None, (scaled_down(self.cluster, template) for template in self.templates)):
            self.say(text)
        return Outcome("done", self._placed)

    async def serve(self) -> None:
        """Treat pods as they come, until that is to end. Nothing is held for ever, but for gangs that never were whole: a pod that is more
        than the placement has nodes for, or that no planned node takes, goes without a node. So does a gang that was whole before, whole.

        Raises:
            Unreachable: no answer came.
        """
        await self.cluster.refresh()
        policy = self.placement.policy or DEFAULT
        exempt = tuple(self.placement.snapshot.daemonNamespaces)
        rules = BrokenRules(self.cluster, policy.executionGraceSeconds, exempt, self.listener.note)
        while not self.ending.is_set():
            await rules.look(asyncio.get_running_loop().time())
            if not await self.look(free_after=self.options.timeout):
                await self.news(max(1.0, self.options.pause))

    async def look(self, *, free_after: float | None = None) -> bool:
        """Let go what may go now; return whether anything did. ``free_after``: so many seconds after it came a pod that no planned node
        takes goes without one, and at once where none of its nodes exists; None: such pods stay behind the gate."""
        await self._see()
        chosen = await self._choose()
        if chosen.accepted or self._freed(chosen, free_after):
            # A gate cannot come back, and each kind is watched by itself: a node may have gone before a pod came.
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
            self.say(f"Pod {key_of(pod)} is more than the placement has nodes for, and stays behind the gate")
        for text in (*self._stranded(), *(self._why if free_after is not None else ())):
            self.say(text)
        if went:
            await self.cluster.refresh()
        self._remind(chosen, free_after)
        return bool(went)

    async def _choose(self) -> Choice:
        """Return what may go as the cluster is known to be."""
        found = ready(self.cluster, self.templates)
        self.holding.see(self.cluster, self.templates, found)
        self._why = [*found.waiting.values()]
        asked = [*found.together, *found.alone]
        if not asked:
            return Choice(found)
        fitting = await Fitting(self.cluster, self.placement, self.templates, self.judge).look()
        accepted = fitting.accepted(asked)
        keys = {release.key for release in accepted}
        for release in found.alone:
            if release.key not in keys:
                accepted += self._elsewhere(fitting, release, accepted)
        keys = {release.key for release in accepted}
        behind: dict[str, list[Release]] = {}
        for release in asked:
            if release.key not in keys:
                behind.setdefault(release.group, []).append(release)
        accepted = fitting.in_turn(accepted)
        self._why = [*found.waiting.values(), *dict.fromkeys(fitting.why.values())]
        never = frozenset(gang for gang, members in found.gangs.items() if not self.holding.was_whole(self.cluster, members))
        return Choice(found, accepted, [*behind.values()], fitting, never)

    async def news(self, seconds: float) -> None:
        """Wait for a change of the cluster, so long at most, and a little more for what comes with it."""
        asked = iter([None])
        change = asyncio.ensure_future(self.cluster.until(lambda: next(asked, True), max(0.0, seconds)))
        end = asyncio.ensure_future(self.ending.wait())
        try:
            await asyncio.wait([change, end], return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
            end.cancel()
        await asyncio.sleep(min(self.options.pause, max(0.0, seconds)))

    def say(self, text: str) -> None:
        """Tell the listener, once."""
        if text not in self._said:
            self._said.add(text)
            self.listener.note(text)

    # --- pods that their node does not take ---------------------------------------------------------------------------------

    def _elsewhere(self, fitting: Fitting, release: Release, others: Sequence[Release]) -> list[Release]:
        """Return a pod on another node that is short of pods of its template, if one takes it."""
        template = release.template
        crew = next((each for each in crews(self.cluster, template) if release.pod in each.pods), None)
        if template.by_name or crew is None:
            return []
        taken = [other.node for other in others if other.template.ref == template.ref]
        short, why = crew.short(), fitting.why.pop(release.group, "")
        for node in dict.fromkeys(short):
            other = replace(release, node=node)
            if node != release.node and short.count(node) > taken.count(node) and other in fitting.accepted([*others, other]):
                return [other]
            fitting.why.pop(release.group, None)
        fitting.why[release.group] = why
        return []

    def _freed(self, chosen: Choice, seconds: float | None) -> list[Object]:
        """Return the pods that go without a node now."""
        if seconds is None:
            return []
        late = [group for group in chosen.behind if chosen.goes_free(group) and self._is_late(group, seconds)]
        return [*chosen.ready.beyond, *(release.pod for group in late for release in group)]

    def _is_late(self, group: Sequence[Release], seconds: float) -> bool:
        """Return True if these pods have waited long enough for planned nodes, or there are none any more."""
        waited = self.holding.refuse([release.pod for release in group])
        planned = {node for each in group for node in ([each.node] if each.template.by_name else each.template.nodes)}
        return waited >= seconds or all(self.cluster.named("Node", node) is None for node in planned)

    def _remind(self, chosen: Choice, free_after: float | None) -> None:
        """Say of each pod that has been held for another minute what it waits for, and what becomes of it."""
        reasons = chosen.reasons(self.holding, self._refused, free_after)
        for text in self.holding.reminders(self.cluster, self.templates, reasons):
            self.listener.note(text)

    def _stranded(self) -> list[str]:
        """Return what is said of pods that wait for a node which is gone: a gate cannot come back, nor can their affinity be changed."""
        waiting = [pod for template in self.templates for crew in crews(self.cluster, template) for pod in crew.pods if is_waiting(pod)]
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
        """Wait until the scheduler has bound a pod that was let go, or has had the time to. Its group goes whole even so."""
        clock = asyncio.get_running_loop().time
        end = clock() + _TURN
        while clock() < end and not self.ending.is_set():
            found = self.cluster.pod(release.pod["metadata"]["uid"])
            if found is None or found["spec"].get("nodeName"):
                return
            await self.news(end - clock())

    async def _see(self) -> None:
        if self.places is not None:
            await self.places.see()

    async def _send(self, pod: Object, release: Release | None = None) -> bool:
        """Take the gate off, for the node of a release or none; return whether that was done. A pod that was changed meanwhile is read
        again."""
        for _ in range(_TRIES):
            if release is None or self.places is None:
                answer = await self.api.send("PATCH", path_of(pod), letting_go(pod, release.node if release is not None else None))
            elif (told := await self.places.let_go(release, pod)) is not None:
                answer = told
            else:
                return False  # until it is known what became of the pod that has its place
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
                return False  # gone, or let go by somebody else
            pod = found
        return False

    async def _bind(self, release: Release) -> None:
        """Bind a pod that no scheduler would place before its partners; where the scheduler was faster, that is as good."""
        metadata = {key: release.pod["metadata"][key] for key in ("name", "namespace", "uid")}
        target = {"apiVersion": "v1", "kind": "Node", "name": release.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        api = self.api if self.places is None else self.places.api(release)
        answer = await api.send("POST", f"{path_of(release.pod)}/binding", body)
        if not answer.ok and answer.code not in (404, 409):
            self.say(f"Pod {release.key} cannot be bound: {answer.message}")

    # --- the end ------------------------------------------------------------------------------------------------------

    def _lacking(self, template: TemplateNodes) -> int:
        """Return how many planned pods of a workload are not bound."""
        if template.kind in _LATER:
            return 0
        newest = crews(self.cluster, template)[-1:]
        bound = sum(bool(pod["spec"].get("nodeName")) for crew in newest for pod in crew.pods) + sum(crew.over for crew in newest)
        return max(0, asked_for(self.cluster, template) - bound)

    async def _stopped(self) -> Outcome:
        """Say what stands, and delete what is not whole where that was asked for."""
        lacking = [template for template in self.templates if self._lacking(template)]
        outcome = Outcome("stopped", self._placed, [self._standing(template) for template in lacking])
        outcome.left += self._why
        if self.options.undo:
            gangs = {template.gang for template in lacking if template.gang}
            doomed = [t for t in self.templates if t in lacking or t.gang in gangs]
            keep = self.places.undo if self.places is not None else None
            outcome.undone = await undo(self.api, self.cluster, doomed, self.say, keep)
        return outcome

    def _standing(self, template: TemplateNodes) -> str:
        newest = crews(self.cluster, template)[-1:]
        pods = [pod for crew in newest for pod in crew.pods]
        held = [pod for pod in pods if is_held(pod)]
        given = [f"{key_of(pod)} waits for {node_of(pod)}" for pod in pods if not is_held(pod) and not pod["spec"].get("nodeName")]
        asked = asked_for(self.cluster, template)
        text = f"{template.ref}: {asked - self._lacking(template)} of {asked} pods are bound, {len(held)} behind the gate"
        return f"{text}; let go, but not bound: {', '.join(given[:3])}{' …' if len(given) > 3 else ''}" if given else text
