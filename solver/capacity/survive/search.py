"""The search over all failures: first bounds and construction for each, then what these leave open, then the worst ones closer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.composition import Composition
from kubestow.solver.capacity.survive.decide import Verdict, decide
from kubestow.solver.capacity.survive.equal_failures import group
from kubestow.solver.capacity.survive.instance import Instance
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.executors.pool import Pool, Question
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext

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
#: The share of the time limit by which workers may be late, and seconds beside it.
LATE: Final = 0.05
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


@dataclass(frozen=True, slots=True)
class Part:
    """A failure to be decided. ``how``: ``quick``, ``even`` as of :func:`kubestow.solver.capacity.survive.decide.decide`; by a whole
    search; or with preemption, where ``before`` is what is known without it. ``seconds``: that it may take, None: as many as it takes."""

    failed: Failed
    how: Literal["quick", "even", "whole", "preempting"]
    seconds: float | None
    before: Verdict | None = None


class FailureSearch:
    """``nodes``: those of each domain that can fail. ``pool``: workers who share the work; what they find does not depend on how many there
    are, nor do deterministic seconds."""

    def __init__(
        self, snapshot: Snapshot, asked: SurviveOptions, nodes: Mapping[str, Sequence[str]], context: RunContext, pool: Pool | None = None
    ) -> None:
        self.snapshot, self.asked, self.nodes, self.context, self.pool = snapshot, asked, nodes, context, pool
        self.instance = Instance(snapshot, asked, context.options)
        self._keys = [pod_key(pod) for pod in self.instance.cluster.snapshot.pods]
        options = context.options
        if pool is not None and not options.deterministic:
            options = replace(options, workers=pool.share(options.workers))
        self._question = Question(pool, _elsewhere, (snapshot, asked, nodes, options), self)

    def run(self) -> Found:
        """Look at every failure, as far as time allows."""
        found = Found(group(self.instance, self.nodes, self.asked.at_once))
        self._look(found)
        self._solve(found, [failed for failed in found.alike if failed in found.verdicts and found.verdicts[failed].by is None])
        if self.asked.preemption and self.asked.priority is not None:
            self._preempt(found, [failed for failed in found.alike if failed in found.verdicts and not found.verdicts[failed].survives])
        else:
            self._close(found)
        return found

    def gone(self, failed: Failed) -> list[str]:
        """Return the nodes that fail."""
        return [name for domain in failed for name in self.nodes[domain]]

    def decide(self, failed: Failed, context: RunContext, *, quick: bool = False, even: bool = False) -> Verdict:
        """Decide one failure, whatever is known of others; ``quick``, ``even``: as of
        :func:`kubestow.solver.capacity.survive.decide.decide`."""
        gone = self.gone(failed)
        cluster = self.instance.left(gone)
        keys = self._keys if cluster.snapshot is self.instance.cluster.snapshot else ()
        return decide(cluster, context, quick=quick, even=even, keys=keys)

    def decided(self, part: Part) -> Verdict:
        """Decide one failure within its own time, here or in a worker."""
        context = self.context.part(part.seconds)
        if part.how == "preempting":
            from kubestow.solver.capacity.survive.preemption import decide_preempting

            assert part.before is not None
            return decide_preempting(self.snapshot, self.gone(part.failed), self.asked, part.before, context)
        return self.decide(part.failed, context, quick=part.how != "whole", even=part.how == "even")

    def _decided(self, parts: Iterator[Part]) -> Iterator[tuple[Part, Verdict]]:
        return self._question.answers(FailureSearch.decided, parts, self._left)

    def _left(self) -> bool:
        """Return whether what is at work is left, too: after ^C, or where workers are late."""
        options = self.context.options
        late = options.time_limit is not None and not options.deterministic
        return self.context.stop.is_set() or (late and self.context.deadline.left() < -1 - LATE * (options.time_limit or 0.0))

    def _look(self, found: Found) -> None:
        composition = self._single() if self.asked.at_once > 1 else None

        def parts() -> Iterator[Part]:
            for failed in found.alike:
                if self.context.over():
                    return
                certificate = composition.certificate(failed) if composition is not None else None
                if certificate is not None:
                    self._note(found, failed, certificate)
                else:
                    yield self._quick(failed)

        for part, verdict in self._decided(parts()):
            self._note(found, part.failed, verdict)
        self._report(found)

    def _note(self, found: Found, failed: Failed, verdict: Verdict) -> None:
        found.verdicts[failed] = verdict
        if len(found.verdicts) % EVERY == 0:
            self._report(found)

    def _quick(self, failed: Failed, *, even: bool = False) -> Part:
        self.context.deadline.charge(LOOK)
        clock = self.context.options.time_limit is not None and not self.context.options.deterministic
        return Part(failed, "even" if even else "quick", max(self.context.deadline.left(), SHORT) if clock else None)

    def _single(self) -> Composition:
        """Certificates of what fails by itself, to be put together: evenly filled nodes leave room for those of others, and where they are
        in each other's way, full ones may not be."""

        def parts() -> Iterator[Part]:
            for name in self.nodes:
                if self.context.over():
                    return
                yield from [self._quick((name,), even=even) for even in (True, False)]

        known = {(part.failed[0], part.how): verdict for part, verdict in self._decided(parts())}
        verdicts = {name: [known[name, how] for how in ("even", "quick") if (name, how) in known] for name in self.nodes}
        return Composition(self.instance, self.nodes, verdicts, self._keys)

    def _solve(self, found: Found, failures: Sequence[Failed], share: float = ALL) -> None:
        """Search for what construction did not find. ``share``: of the time that is left, for all of them."""

        def parts() -> Iterator[Part]:
            for number, failed in enumerate(failures):
                if self.context.over():
                    return
                yield Part(failed, "whole", self._seconds(share, len(failures) - number))

        for part, verdict in self._decided(parts()):
            found.verdicts[part.failed] = _better(found.verdicts[part.failed], verdict)
            self._report(found)

    def _close(self, found: Found) -> None:
        """Search how many pods come back at most after the failures that are not survived, above all after the worst."""
        unclosed = [failed for failed in found.worst() if not found.verdicts[failed].closed]
        self._solve(found, unclosed[:CLOSER], SHARE)
        rest = unclosed[CLOSER:]
        if self.context.options.time_limit is None or len(rest) * ENOUGH <= self.context.deadline.left() * self._width:
            self._solve(found, rest)

    def _preempt(self, found: Found, failures: Sequence[Failed]) -> None:
        before = {failed: found.verdicts[failed] for failed in failures}
        found.verdicts |= {failed: replace(verdict, most=verdict.displaced, by=None) for failed, verdict in before.items()}

        def parts() -> Iterator[Part]:
            for number, failed in enumerate(failures):
                if self.context.over():
                    return
                yield Part(failed, "preempting", self._seconds(ALL, len(failures) - number), before[failed])

        for part, verdict in self._decided(parts()):
            found.verdicts[part.failed] = verdict
            self._report(found)

    @property
    def _width(self) -> int:
        """How many failures are decided at once, as far as the time for each depends on it: deterministic seconds do not."""
        return 1 if self.context.options.deterministic else self._question.width

    def _seconds(self, share: float, number: int) -> float | None:
        """Return the seconds for one of so many failures that have a share of the time that is left."""
        if self.context.options.time_limit is None:
            return None
        seconds = max(self.context.deadline.left() * share * min(1, self._width / number), SHORT)
        self.context.deadline.charge(seconds)
        return seconds

    def part(self, seconds: float) -> RunContext:
        """Return the context of a part of the work that may take so many seconds."""
        self.context.deadline.charge(max(seconds, SHORT))
        return self.context.part(max(seconds, SHORT))

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


def _elsewhere(snapshot: Snapshot, asked: SurviveOptions, nodes: Mapping[str, Sequence[str]], options: Options) -> FailureSearch:
    """Compile a search once more, in a worker."""
    return FailureSearch(snapshot, asked, nodes, RunContext.start(options))


def _better(before: Verdict, after: Verdict) -> Verdict:
    """What is known by both."""
    best = after if len(after.assignments) >= len(before.assignments) else before
    return replace(best, most=min(before.most, after.most), by=before.by or after.by)
