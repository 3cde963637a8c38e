"""The checker of a Survival. It counts all failures and replays every certificate without the failed nodes.

A failure that the document calls equal to another is proved on its own. Its pods go where those of the other go; if
a rule rejects that, they go wherever there is room. To prove that a failure is *not* survived takes a search. The
checker only makes sure that a greedy pass cannot place the pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import comb
from typing import Final

from kubestow.checker.capacity import buffers, plain_replay
from kubestow.checker.capacity.checked import CheckedDocument
from kubestow.checker.capacity.failure_placements import PlacementFinder
from kubestow.checker.capacity.failures import comes_back, domains, listed, nodes_of, without
from kubestow.checker.capacity.outage import Outage, OutageRunner
from kubestow.checker.reading import gang_roster
from kubestow.checker.rules.base import Fault
from kubestow.checker.violation import Violation
from kubestow.models.documents.headroom import Headroom
from kubestow.models.documents.placement import Assignment
from kubestow.models.documents.policy import DEFAULT, node_topologies
from kubestow.models.documents.survival import Scenario, Survival
from kubestow.models.kube import objects
from kubestow.models.snapshot.gc_pause import no_gc
from kubestow.models.snapshot.snapshot import Snapshot

RULE: Final = "Survival"


#: Claims that are not checked, in words for users.
UNCHECKED: Final = (
    "that pods have to stay pending, how many, and why: it takes a search; they are not placed one after the other, though",
    "what failures do to budgets and quorums, and whether a remedy is the cheapest",
)


#: Returns all faults of some failures, as :meth:`FailureJudge.scenario` does for one.
Judged = Callable[[Sequence[Scenario]], Iterable[Violation]]


def check_survival(snapshot: Snapshot, survival: Survival, judged: Judged | None = None) -> CheckedDocument:
    """Check a Survival and return its faults and unchecked claims.

    Args:
        snapshot: The snapshot with the document's edits.
        survival: The document.
        judged: Judges all failures, for example in several processes. By default they are judged here.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
        InputError: the declaration of a gang cannot be read.
    """
    with no_gc():
        ref = survival.snapshot
        if ref.sha256 and snapshot.sha256 and ref.sha256 != snapshot.sha256:
            return CheckedDocument([_fault(f"the document is of snapshot {ref.sha256}, this is {snapshot.sha256}")], list(UNCHECKED))
        judge = FailureJudge(snapshot, survival)
        headroom = list(headroom_faults(snapshot, survival))
        found = [_fault(why) for why in _counts(survival, judge.domains)]
        found += judged(survival.outcomes) if judged is not None else chain.from_iterable(map(judge.scenario, survival.outcomes))
        found += [_fault(why) for why in _counterexamples(survival, judge)]
        untried = judge.seeker.untried
        more = [f"whether pods of {untried} failures that are not survived find places one after the other: there are too many"]
        bounds = [buffers.UNCHECKED] if survival.headroom is not None else []
        return CheckedDocument([*found, *headroom], [*UNCHECKED, *(more if untried else ()), *bounds])


def headroom_faults(snapshot: Snapshot, survival: Survival) -> Iterator[Violation]:
    """Yield faults of the headroom that a document claims for CapacityBuffers after failures."""
    if survival.headroom is None:
        return
    buffer_objects = buffers.Buffers(snapshot)
    judge = FailureJudge(snapshot, survival, [pod for pod in buffer_objects.edited.pods if objects.pod_key(pod) in buffer_objects.chunks])
    survived = [each for each in survival.outcomes if each.outcome == "survives"]
    whole = {",".join(failed) for each in survived for failed in (each.failed, *each.alike)}
    seen: set[str] = set()
    for room in survival.headroom:
        failed = room.state.split(",")
        if failed != [name for name in judge.domains if name in set(failed)] or len(failed) != survival.atOnce or room.state in seen:
            yield _fault(f"headroom: {room.state} is no failure of {survival.atOnce} at once, or is given twice")
            continue
        seen.add(room.state)
        yield from judge.room_faults(nodes_of(failed, judge.domains), room, buffer_objects)
        if room.state in whole and room.left and not survival.preemption:
            yield _fault(f"headroom: {room.left} pods are left after the failure of {room.state}, which is survived")


def _fault(why: str, pod: str = "", node: str = "") -> Violation:
    return Violation(pod, node, RULE, why)


def _counts(survival: Survival, among: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield wrong counts of failures, and failures that are unknown or listed twice."""
    said, known = survival.scenarios, survival.outcomes
    number = comb(len(among), survival.atOnce) if survival.atOnce > 0 else 0
    if said.all != number:
        yield f"{said.all} failures are said to be all, there are {number}"
    seen: set[frozenset[str]] = set()
    for failed in (each for scenario in known for each in (scenario.failed, *scenario.alike)):
        failure = frozenset(failed)
        if len(failure) != survival.atOnce or len(failed) != survival.atOnce:
            yield f"{len(failed)} of {listed(failed)} fail, {survival.atOnce} do at once"
        if unknown := [name for name in failed if name not in among]:
            yield f"there is no {unknown[0]} that could fail"
        if failure in seen:
            yield f"the failure of {listed(failed)} is given twice"
        seen.add(failure)
    undecided = [scenario for scenario in known if scenario.outcome == "unknown"]
    decided = len(known) - len(undecided)
    bounded = sum(scenario.by in ("nothing", "bound") for scenario in known if scenario.outcome != "unknown")
    numbers = (
        ("decided by a bound", said.bounded, bounded),
        ("solved", said.solved, decided - bounded),
        ("open", said.open, said.distinct - decided),
        ("composed", said.composed, sum(scenario.by == "composition" for scenario in known if scenario.outcome != "unknown")),
    )
    for what, claimed, counted in numbers:
        if claimed != counted:
            yield f"{claimed} distinct failures are said to be {what}, {counted} are"
    if said.distinct < len(known) or (said.distinct > len(known) and len(seen) >= number):
        yield f"{said.distinct} failures are said to be distinct, {len(known)} are given"
    if len(seen) < number and said.distinct == len(known):
        yield f"{len(seen)} of {number} failures are accounted for"
    certified = len(seen) == number and said.distinct == len(known) and all(scenario.outcome == "survives" for scenario in known)
    if survival.certified != certified:
        yield "it is said to be certified, and not every failure is survived" if survival.certified else "every failure is survived"


def _counterexamples(survival: Survival, judge: FailureJudge) -> Iterator[str]:
    outcomes = {frozenset(failed): scenario for scenario in survival.outcomes for failed in (scenario.failed, *scenario.alike)}
    listed_failures: set[frozenset[str]] = set()
    for example in survival.counterexamples:
        name, failure = listed(example.failed), frozenset(example.failed)
        scenario = outcomes.get(failure)
        if failure in listed_failures:
            yield f"the counterexample {name} is given twice"
        listed_failures.add(failure)
        if scenario is None or scenario.outcome != "pending":
            yield f"the failure of {name} is a counterexample, and no outcome says that pods stay pending"
            continue
        back = {runner.key for runner in judge.back(nodes_of(example.failed, judge.domains))}
        if strange := [pod for pod in example.pending if pod not in back]:
            yield f"counterexample {name}: {strange[0]} does not have to come back"
        if len(set(example.pending)) != len(example.pending):
            yield f"counterexample {name}: a pod stays pending twice"
        if not 1 <= example.least <= len(example.pending):
            yield f"counterexample {name}: {len(example.pending)} pods stay pending, at least {example.least} are said to"
        if example.least < scenario.pending:
            yield f"counterexample {name}: at least {example.least} pods are said to stay pending, the outcome says {scenario.pending}"


@dataclass
class FailureJudge:
    """Judges one failure after another.

    Attributes:
        snapshot: The cluster before any failure.
        survival: The document; its outcomes are not read here.
        visitors: Chunks of CapacityBuffers.
        outage: The state on which failures are replayed.
        seeker: Finds placements for failures without a certificate.
        domains: Nodes of each domain that can fail.
    """

    snapshot: Snapshot
    survival: Survival
    visitors: Sequence[objects.Pod] = ()
    outage: Outage = field(init=False)
    seeker: PlacementFinder = field(init=False)
    domains: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        snapshot, survival = self.snapshot, self.survival
        policy = survival.policy or DEFAULT
        self.outage = Outage(snapshot, survival.snapshot.daemonNamespaces, self.visitors)
        self.seeker = PlacementFinder(self.outage)
        self.domains = domains(snapshot, survival.fail)
        runners = self.outage.runners
        self._back = {key for key, runner in runners.items() if comes_back(runner.pod, survival.priority)}
        alone = snapshot.copy()
        alone.pods = [runners[key].pod for key in self._back]
        self._gangs = gang_roster.read_roster(alone, self._back, policy).gang_of if self._back else {}
        self._zones = bool(node_topologies(policy, snapshot))
        self._devices = snapshot.gates.enabled("DynamicResourceAllocation")

    def back(self, gone: Sequence[str]) -> list[OutageRunner]:
        """Return the pods to be rescheduled after nodes fail."""
        return [runner for name in gone for runner in self.outage.residents.get(name, ()) if runner.key in self._back]

    def _is_plain(self, back: Sequence[OutageRunner]) -> bool:
        """Return True if none of the pods belongs to a gang or uses devices."""
        if any(runner.key in self._gangs for runner in back):
            return False
        return not (self._devices and any(self._wants_devices(runner) for runner in back))

    def _wants_devices(self, runner: OutageRunner) -> bool:
        if runner.pod.spec.resourceClaims:
            return True
        return bool(self.snapshot.device_classes) and any("/" in resource for resource in self.outage.requests(runner))

    def scenario(self, scenario: Scenario) -> Iterator[Violation]:
        """Yield the faults of one failure and of the failures that the document calls equal to it."""
        gone = nodes_of(scenario.failed, self.domains)
        back = self.back(gone)
        name = listed(scenario.failed)
        if scenario.outcome == "unknown":
            return
        if scenario.displaced != len(back):
            yield _fault(f"failure of {name}: {scenario.displaced} pods are said to have to come back, {len(back)} have to")
        if scenario.outcome == "pending":
            if not 1 <= scenario.pending <= len(back):
                yield _fault(f"failure of {name}: {scenario.pending} pods are said to stay pending, of {len(back)}")
        else:
            if scenario.pending:
                yield _fault(f"failure of {name}: {scenario.pending} pods are said to stay pending, and it is survived")
            if (scenario.by == "nothing") != (not back):
                yield _fault(f"failure of {name}: {scenario.by} is said to have decided it, {len(back)} pods have to come back")
            yield from self._certificate(name, gone, back, scenario)
        for failed in ([scenario.failed] if scenario.outcome == "pending" else []) + scenario.alike:
            yield from self._without_certificate(scenario, failed, gone, back)

    def _certificate(self, name: str, gone: Sequence[str], back: Sequence[OutageRunner], scenario: Scenario) -> Iterator[Violation]:
        """Yield the faults of the placement that the document gives, replayed in bind order."""
        given = {entry.pod for entry in scenario.assignments}
        wanted = {runner.key: runner for runner in back}
        if missing := sorted(wanted.keys() - given):
            yield _fault(f"failure of {name}: {len(missing)} pods that have to come back have no place", missing[0])
        for entry in scenario.assignments:
            if entry.pod not in wanted:
                yield _fault(f"failure of {name}: the pod does not have to come back", entry.pod, entry.node)
        if len(given) != len(scenario.assignments):
            yield _fault(f"failure of {name}: a pod is put in two places")
        for why, pod in self._preemption_faults(scenario, gone, wanted):
            yield _fault(f"failure of {name}: {why}", pod)
        entries = [entry for entry in sorted(scenario.assignments, key=lambda entry: entry.order) if entry.pod in wanted]
        if self._is_plain(back):
            faults = self._replay(gone, wanted, entries, scenario.preempted)
            if self._zones or any(entry.containers for entry in entries):
                faults += plain_replay.zone_faults(self.snapshot, self.survival, entries)
        else:
            faults = plain_replay.faults(self.snapshot, self.survival, gone, entries, scenario.preempted)
        for pod, node, (rule, why) in faults:
            yield Violation(pod, node, rule, f"failure of {name}: {why}")

    def _replay(
        self, gone: Sequence[str], runners: Mapping[str, OutageRunner], entries: Sequence[Assignment], preempted: Sequence[str]
    ) -> list[tuple[str, str, Fault]]:
        """Replay assignments after a failure; return pod key, node and fault."""
        outage, found = self.outage, []
        outage.fail(gone)
        for key in dict.fromkeys(preempted):
            if key in outage.runners and outage.runners[key].node not in outage.gone:
                outage.evict(outage.runners[key])
        for entry in entries:
            runner = runners[entry.pod]
            found += [(entry.pod, entry.node, fault) for fault in outage.faults(runner, entry.node)]
            if entry.node in outage.nodes and entry.node not in outage.gone:
                outage.put(runner, entry.node)
        found += outage.final_faults()
        outage.restore()
        return found

    def room_faults(self, gone: Sequence[str], room: Headroom, buffer_objects: buffers.Buffers) -> Iterator[Violation]:
        """Yield faults of the headroom for CapacityBuffers after one failure."""
        back = self.back(gone)
        if not self._is_plain([*back, *self.outage.visitors.values()]):
            base, _ = without(self.snapshot, gone, (), self.survival)
            yield from buffers.headroom_faults(base, room, self.survival.snapshot, self.survival.policy)
            return
        yield from buffer_objects.faults(room)
        runners = {**self.outage.visitors, **{runner.key: runner for runner in back}}
        yield from buffers.left_faults(room, {runner.key for runner in back})
        entries = sorted(room.assignments, key=lambda entry: entry.order)
        known = [entry for entry in entries if entry.pod in runners]
        if len({entry.pod for entry in entries}) < len(entries):
            yield buffers.fault(room, "a pod is put in two places")
        if len(known) < len(entries):
            yield buffers.fault(room, "a pod is put on a node, and there is no such pod that waits")
        for pod, node, (rule, why) in self._replay(gone, runners, known, ()):
            yield Violation(pod, node, rule, f"{buffers.RULE}, {room.state}: {why}")

    def _preemption_faults(self, scenario: Scenario, gone: Sequence[str], wanted: Mapping[str, OutageRunner]) -> Iterator[tuple[str, str]]:
        if scenario.preempted and not self.survival.preemption:
            yield "pods are preempted, and none may be", scenario.preempted[0]
        highest: dict[str, int] = {}
        for entry in scenario.assignments:
            if entry.pod in wanted:
                highest[entry.node] = max(highest.get(entry.node, -(2**63)), wanted[entry.pod].pod.spec.priority or 0)
        for key in scenario.preempted:
            victim = self.outage.runners.get(key)
            if victim is None or victim.node in gone:
                yield "the pod that is preempted runs nowhere", key
            elif victim.node not in highest or (victim.pod.spec.priority or 0) >= highest[victim.node]:
                yield "a pod is preempted, and none of a higher priority comes to its node", key

    def _without_certificate(
        self, scenario: Scenario, failed: Sequence[str], first_gone: Sequence[str], first_back: Sequence[OutageRunner]
    ) -> Iterator[Violation]:
        """Yield the faults of a failure for which the document gives no placement.

        If the outcome is survival, a placement must exist. If pods stay pending, a greedy pass must not be able to place them.
        """
        gone = nodes_of(failed, self.domains)
        back = self.back(gone)
        name, first = listed(failed), listed(scenario.failed)
        if len(back) != len(first_back):
            counts = f"{len(back)} pods have to come back, {len(first_back)} there"
            yield _fault(f"failure of {name}: it is said to be equal to that of {first}, and {counts}")
            return
        if scenario.outcome == "pending":
            if self._is_plain(back) and not scenario.preempted and self.seeker.finds(gone, back) and not self._zones:
                yield _fault(f"failure of {name}: pods are said to stay pending, and all find a place one after the other")
            return
        places = self.seeker.carried_over(scenario, first_gone, first_back, gone, back)
        if self._is_plain(back):
            why = self.seeker.settle(gone, back, {entry.pod: entry.node for entry in places.entries}, places.preempted)
        else:
            faults = plain_replay.faults(self.snapshot, self.survival, gone, places.entries, places.preempted)
            why = faults[0][2][1] if faults else None
        if why is not None:
            yield _fault(f"failure of {name}: it is said to be equal to that of {first}, and its pods find no places like these: {why}")
