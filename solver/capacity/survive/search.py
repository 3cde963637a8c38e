"""The search over all failures: first bounds and construction for each, then what these leave open, then the worst ones closer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from models.kube.objects import pod_key
from models.snapshot.snapshot import Snapshot
from solver.capacity.survive.composition import Composition
from solver.capacity.survive.decide import Verdict, decide
from solver.capacity.survive.equal_failures import group
from solver.capacity.survive.instance import Instance
from solver.capacity.survive.options import SurviveOptions
from solver.runtime.deadline import Deadline
from solver.runtime.run_context import RunContext

Failed = tuple[str, ...]
#: Counterexamples, the worst first, for which it is sought how many pods come back at most.
CLOSER: Final = 10
#: The share of the time that is left for all failures that bounds and construction leave open.
ALL: Final = 0.7
#: The share of the time that is left for the worst, all together.
SHARE: Final = 0.4
#: Seconds that each of the others should have; else they are left at their bounds.
ENOUGH: Final = 0.5
#: Seconds in place of none: a time limit is positive.
SHORT: Final = 1e-3
#: Failures between two signs of life.
EVERY: Final = 50
#: Deterministic seconds that the quick look at one failure counts.
LOOK: Final = 5e-3


@dataclass
class Found:
    """``alike``: one failure of each kind, with those that are equal to it; ``verdicts``: of those that were looked at."""

    alike: dict[Failed, list[Failed]]
    verdicts: dict[Failed, Verdict] = field(default_factory=dict)

    @cached_property
    def all(self) -> int:
        """The number of failures."""
        return sum(1 + len(others) for others in self.alike.values())

    def worst(self) -> list[Failed]:
        """Return the failures that are not survived, those first after which most pods stay pending, proved."""
        lost = [failed for failed, verdict in self.verdicts.items() if verdict.by is not None and verdict.least]
        return sorted(lost, key=lambda failed: (-self.verdicts[failed].least, failed))


class FailureSearch:
    """``nodes``: those of each domain that can fail."""

    def __init__(self, snapshot: Snapshot, asked: SurviveOptions, nodes: Mapping[str, Sequence[str]], context: RunContext) -> None:
        self.snapshot, self.asked, self.nodes, self.context = snapshot, asked, nodes, context
        self.instance = Instance(snapshot, asked, context.options)
        self._keys = [pod_key(pod) for pod in self.instance.cluster.snapshot.pods]
        self._silent = RunContext(context.options, context.deadline, context.stop)

    def run(self) -> Found:
        """Look at every failure, as far as time allows."""
        found = Found(group(self.instance, self.nodes, self.asked.at_once))
        self._look(found)
        self._solve(found, [failed for failed, verdict in found.verdicts.items() if verdict.by is None])
        if self.asked.preemption and self.asked.priority is not None:
            self._preempt(found, [failed for failed, verdict in found.verdicts.items() if not verdict.survives])
        else:
            self._close(found)
        return found

    def gone(self, failed: Failed) -> list[str]:
        """Return the nodes that fail."""
        return [name for domain in failed for name in self.nodes[domain]]

    def decide(self, failed: Failed, context: RunContext, *, quick: bool = False, even: bool = False) -> Verdict:
        """Decide one failure, whatever is known of others; ``quick``, ``even``: as of :func:`solver.capacity.survive.decide.decide`."""
        gone = self.gone(failed)
        cluster = self.instance.left(gone)
        keys = self._keys if cluster.snapshot is self.instance.cluster.snapshot else ()
        return decide(cluster, context, quick=quick, even=even, keys=keys)

    def _look(self, found: Found) -> None:
        composition = self._single() if self.asked.at_once > 1 else None
        for number, failed in enumerate(found.alike, 1):
            if self.context.over():
                break
            certificate = composition.certificate(failed) if composition is not None else None
            found.verdicts[failed] = certificate or self._quick(failed)
            if number % EVERY == 0 or number == len(found.alike):
                self._report(found)

    def _quick(self, failed: Failed, *, even: bool = False) -> Verdict:
        self.context.deadline.charge(LOOK)
        return self.decide(failed, self._silent, quick=True, even=even)

    def _single(self) -> Composition:
        """Certificates of what fails by itself, to be put together: evenly filled nodes leave room for those of others, and where they are
        in each other's way, full ones may not be."""
        verdicts: dict[str, list[Verdict]] = {}
        for name in self.nodes:
            if self.context.over():
                break
            verdicts[name] = [self._quick((name,), even=even) for even in (True, False)]
        return Composition(self.instance, self.nodes, verdicts, self._keys)

    def _solve(self, found: Found, failures: Sequence[Failed], share: float = ALL) -> None:
        """Search for what construction did not find. ``share``: of the time that is left, for all of them."""
        for number, failed in enumerate(failures):
            if self.context.over():
                break
            part, before = self._part(share / (len(failures) - number)), found.verdicts[failed]
            found.verdicts[failed] = _better(before, self.decide(failed, part))
            self._report(found)

    def _close(self, found: Found) -> None:
        """Search how many pods come back at most after the failures that are not survived, above all after the worst."""
        unclosed = [failed for failed in found.worst() if not found.verdicts[failed].closed]
        self._solve(found, unclosed[:CLOSER], SHARE)
        rest = unclosed[CLOSER:]
        if self.context.options.time_limit is None or len(rest) * ENOUGH <= self.context.deadline.left():
            self._solve(found, rest)

    def _preempt(self, found: Found, failures: Sequence[Failed]) -> None:
        from solver.capacity.survive.preemption import decide_preempting

        for number, failed in enumerate(failures):
            before = found.verdicts[failed]
            if self.context.over():
                found.verdicts[failed] = replace(before, most=before.displaced, by=None)
                continue
            part = self._part(ALL / (len(failures) - number))
            found.verdicts[failed] = decide_preempting(self.snapshot, self.gone(failed), self.asked, before, part)
            self._report(found)

    def _part(self, share: float) -> RunContext:
        """The context of a part of the work that may take a share of the time that is left."""
        return self._silent if self.context.options.time_limit is None else self.part(self.context.deadline.left() * share)

    def part(self, seconds: float) -> RunContext:
        """Return the context of a part of the work that may take so many seconds."""
        options = replace(self.context.options, time_limit=max(seconds, SHORT))
        self.context.deadline.charge(max(seconds, SHORT))
        return RunContext(options, Deadline(options, time.monotonic()), self.context.stop)

    def _report(self, found: Found) -> None:
        decided = [verdict for verdict in found.verdicts.values() if verdict.by is not None]
        lost = sum(not verdict.survives for verdict in decided)
        kinds = len(found.alike)
        self.context.report(
            "survive",
            "survived",
            len(decided) - lost,
            kinds - lost,
            detail=f"{len(decided)} of {kinds} failures done, {found.all} with equals",
        )


def _better(before: Verdict, after: Verdict) -> Verdict:
    """What is known by both."""
    best = after if len(after.assignments) >= len(before.assignments) else before
    return replace(best, most=min(before.most, after.most), by=before.by or after.by)
