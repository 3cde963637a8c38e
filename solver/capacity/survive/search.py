"""The search over all failures: bounds and construction for each, then a full search for open ones, then tighter bounds for the worst."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

from kubestow.models.kube.objects import pod_key
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.solver.capacity.survive.composition import Composition
from kubestow.solver.capacity.survive.decide import ScenarioVerdict, decide
from kubestow.solver.capacity.survive.equal_failures import group
from kubestow.solver.capacity.survive.instance import FailureInstance
from kubestow.solver.capacity.survive.options import SurviveOptions
from kubestow.solver.capacity.survive.preemption import decide_preempting
from kubestow.solver.executors.pool import PoolQuestion, WorkerPool
from kubestow.solver.runtime.options import Options
from kubestow.solver.runtime.run_context import RunContext

Failed = tuple[str, ...]
#: Maximum number of counterexamples, the worst first, whose bound on returning pods is tightened.
MAX_TIGHTENED_FAILURES: Final = 10
#: Fraction of the remaining time for all failures that bounds and construction leave open.
OPEN_TIME_FRACTION: Final = 0.7
#: Fraction of the remaining time for the worst failures together.
WORST_TIME_FRACTION: Final = 0.4
#: Minimum number of seconds for each other failure; with less, it keeps its bound.
MIN_FAILURE_SECONDS: Final = 0.5
#: Minimum number of seconds for a part, because a time limit must be positive.
MIN_PART_SECONDS: Final = 1e-3
#: Report progress after this number of failures.
REPORT_INTERVAL_FAILURES: Final = 50
#: Fraction of the time limit by which workers may be late, in addition to one second.
MAX_LATE_FRACTION: Final = 0.05
#: Deterministic seconds charged for bounds and construction of one failure.
QUICK_SECONDS: Final = 5e-3


@dataclass
class FailureVerdicts:
    """The verdicts of the search.

    Attributes:
        alike: One failure of each kind, with the failures equivalent to it.
        verdicts: Verdicts of the failures that were examined.
    """

    alike: dict[Failed, list[Failed]]
    verdicts: dict[Failed, ScenarioVerdict] = field(default_factory=dict)

    @cached_property
    def all(self) -> int:
        """The number of failures."""
        return sum(1 + len(others) for others in self.alike.values())

    def worst(self) -> list[Failed]:
        """Return the failures that are proved not survived, those with the most pending pods first."""
        lost = [failed for failed, verdict in self.verdicts.items() if verdict.by is not None and verdict.least]
        return sorted(lost, key=lambda failed: (-self.verdicts[failed].least, failed))


@dataclass(frozen=True, slots=True)
class Part:
    """A failure to be decided.

    Attributes:
        failed: The nodes or domains that fail.
        how: ``quick`` or ``even`` as in :func:`kubestow.solver.capacity.survive.decide.decide`, ``whole`` for
            a full search, or ``preempting``.
        seconds: Time limit; None for no limit.
        before: With ``preempting``, the verdict without preemption.
    """

    failed: Failed
    how: Literal["quick", "even", "whole", "preempting"]
    seconds: float | None
    before: ScenarioVerdict | None = None


class FailureSearch:
    """The search over all failures.

    Results and deterministic seconds do not depend on the number of workers.

    Attributes:
        nodes: The nodes of each domain that can fail.
        pool: Workers that share the work; None for this process only.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        request: SurviveOptions,
        nodes: Mapping[str, Sequence[str]],
        context: RunContext,
        pool: WorkerPool | None = None,
    ) -> None:
        self.snapshot, self.request, self.nodes, self.context, self.pool = snapshot, request, nodes, context, pool
        self.instance = FailureInstance(snapshot, request, context.options)
        self._keys = [pod_key(pod) for pod in self.instance.cluster.snapshot.pods]
        options = context.options
        if pool is not None and not options.deterministic:
            options = replace(options, workers=pool.share(options.workers))
        self._question = PoolQuestion(pool, _search_in_worker, (snapshot, request, nodes, options), self)

    def run(self) -> FailureVerdicts:
        """Examine every failure, as far as time allows."""
        verdicts = FailureVerdicts(group(self.instance, self.nodes, self.request.at_once))
        self._look(verdicts)
        self._solve(verdicts, [failed for failed in verdicts.alike if failed in verdicts.verdicts and verdicts.verdicts[failed].by is None])
        if self.request.preemption and self.request.priority is not None:
            self._preempt(
                verdicts, [failed for failed in verdicts.alike if failed in verdicts.verdicts and not verdicts.verdicts[failed].survives]
            )
        else:
            self._close(verdicts)
        return verdicts

    def gone(self, failed: Failed) -> list[str]:
        """Return the nodes that fail."""
        return [name for domain in failed for name in self.nodes[domain]]

    def decide(self, failed: Failed, context: RunContext, *, quick: bool = False, even: bool = False) -> ScenarioVerdict:
        """Decide one failure independently of the others. ``quick`` and ``even`` are those of
        :func:`kubestow.solver.capacity.survive.decide.decide`."""
        gone = self.gone(failed)
        cluster = self.instance.surviving(gone)
        keys = self._keys if cluster.snapshot is self.instance.cluster.snapshot else ()
        return decide(cluster, context, quick=quick, even=even, keys=keys)

    def decided(self, part: Part) -> ScenarioVerdict:
        """Decide one failure within its own time, here or in a worker."""
        context = self.context.part(part.seconds)
        if part.how == "preempting":
            assert part.before is not None
            return decide_preempting(self.snapshot, self.gone(part.failed), self.request, part.before, context)
        return self.decide(part.failed, context, quick=part.how != "whole", even=part.how == "even")

    def _decided(self, parts: Iterator[Part]) -> Iterator[tuple[Part, ScenarioVerdict]]:
        return self._question.answers(FailureSearch.decided, parts, self._abandoned)

    def _abandoned(self) -> bool:
        """Return True if work in progress is abandoned: after ^C, or if workers are late."""
        options = self.context.options
        late = options.time_limit is not None and not options.deterministic
        return self.context.stop.is_set() or (
            late and self.context.deadline.remaining() < -1 - MAX_LATE_FRACTION * (options.time_limit or 0.0)
        )

    def _look(self, verdicts: FailureVerdicts) -> None:
        composition = self._single() if self.request.at_once > 1 else None

        def parts() -> Iterator[Part]:
            for failed in verdicts.alike:
                if self.context.over():
                    return
                certificate = composition.certificate(failed) if composition is not None else None
                if certificate is not None:
                    self._note(verdicts, failed, certificate)
                else:
                    yield self._quick(failed)

        for part, verdict in self._decided(parts()):
            self._note(verdicts, part.failed, verdict)
        self._report(verdicts)

    def _note(self, verdicts: FailureVerdicts, failed: Failed, verdict: ScenarioVerdict) -> None:
        verdicts.verdicts[failed] = verdict
        if len(verdicts.verdicts) % REPORT_INTERVAL_FAILURES == 0:
            self._report(verdicts)

    def _quick(self, failed: Failed, *, even: bool = False) -> Part:
        self.context.deadline.charge(QUICK_SECONDS)
        clock = self.context.options.time_limit is not None and not self.context.options.deterministic
        return Part(failed, "even" if even else "quick", max(self.context.deadline.remaining(), MIN_PART_SECONDS) if clock else None)

    def _single(self) -> Composition:
        """Return the composition of certificates for single failures.

        Evenly filled nodes leave room for pods of other failures. Fully filled nodes are the alternative if
        these conflict.
        """

        def parts() -> Iterator[Part]:
            for name in self.nodes:
                if self.context.over():
                    return
                yield from [self._quick((name,), even=even) for even in (True, False)]

        known = {(part.failed[0], part.how): verdict for part, verdict in self._decided(parts())}
        verdicts = {name: [known[name, how] for how in ("even", "quick") if (name, how) in known] for name in self.nodes}
        return Composition(self.instance, self.nodes, verdicts, self._keys)

    def _solve(self, verdicts: FailureVerdicts, failures: Sequence[Failed], share: float = OPEN_TIME_FRACTION) -> None:
        """Run the full search for failures that construction left open.

        Args:
            share: Fraction of the remaining time for all these failures.
        """

        def parts() -> Iterator[Part]:
            for number, failed in enumerate(failures):
                if self.context.over():
                    return
                yield Part(failed, "whole", self._seconds(share, len(failures) - number))

        for part, verdict in self._decided(parts()):
            verdicts.verdicts[part.failed] = _better(verdicts.verdicts[part.failed], verdict)
            self._report(verdicts)

    def _close(self, verdicts: FailureVerdicts) -> None:
        """Tighten the bound on returning pods after failures that are not survived, the worst first."""
        unclosed = [failed for failed in verdicts.worst() if not verdicts.verdicts[failed].closed]
        self._solve(verdicts, unclosed[:MAX_TIGHTENED_FAILURES], WORST_TIME_FRACTION)
        untightened = unclosed[MAX_TIGHTENED_FAILURES:]
        if (
            self.context.options.time_limit is None
            or len(untightened) * MIN_FAILURE_SECONDS <= self.context.deadline.remaining() * self._width
        ):
            self._solve(verdicts, untightened)

    def _preempt(self, verdicts: FailureVerdicts, failures: Sequence[Failed]) -> None:
        before = {failed: verdicts.verdicts[failed] for failed in failures}
        verdicts.verdicts |= {failed: replace(verdict, bound=verdict.displaced, by=None) for failed, verdict in before.items()}

        def parts() -> Iterator[Part]:
            for number, failed in enumerate(failures):
                if self.context.over():
                    return
                yield Part(failed, "preempting", self._seconds(OPEN_TIME_FRACTION, len(failures) - number), before[failed])

        for part, verdict in self._decided(parts()):
            verdicts.verdicts[part.failed] = verdict
            self._report(verdicts)

    @property
    def _width(self) -> int:
        """The number of failures decided at once, as far as it affects the time of each. Deterministic seconds do not depend on it."""
        return 1 if self.context.options.deterministic else self._question.width

    def _seconds(self, share: float, number: int) -> float | None:
        """Return the seconds for one of ``number`` failures that share a fraction of the remaining time."""
        if self.context.options.time_limit is None:
            return None
        seconds = max(self.context.deadline.remaining() * share * min(1, self._width / number), MIN_PART_SECONDS)
        self.context.deadline.charge(seconds)
        return seconds

    def part(self, seconds: float) -> RunContext:
        """Return the context of a part of the work that may take the given number of seconds."""
        self.context.deadline.charge(max(seconds, MIN_PART_SECONDS))
        return self.context.part(max(seconds, MIN_PART_SECONDS))

    def _report(self, verdicts: FailureVerdicts) -> None:
        decided = [verdict for verdict in verdicts.verdicts.values() if verdict.by is not None]
        lost = sum(not verdict.survives for verdict in decided)
        kinds = len(verdicts.alike)
        self.context.report(
            "survive",
            "survived",
            len(decided) - lost,
            kinds - lost,
            detail=f"{len(decided)} of {kinds} distinct failures decided, {verdicts.all} in total",
        )


def _search_in_worker(snapshot: Snapshot, request: SurviveOptions, nodes: Mapping[str, Sequence[str]], options: Options) -> FailureSearch:
    """Compile a search again, in a worker."""
    return FailureSearch(snapshot, request, nodes, RunContext.start(options))


def _better(before: ScenarioVerdict, after: ScenarioVerdict) -> ScenarioVerdict:
    """Return the combined knowledge of two verdicts."""
    best = after if len(after.assignments) >= len(before.assignments) else before
    return replace(best, bound=min(before.bound, after.bound), by=before.by or after.by)
