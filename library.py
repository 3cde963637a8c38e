"""The functions of the library, exported by ``import kubestow``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, final, get_args, overload

import msgspec

from kubestow.checker.claims.statement import assumptions
from kubestow.checker.violation import InternalFault
from kubestow.commands.core import given as core
from kubestow.commands.core import goals, judging
from kubestow.commands.core.reading import Manifests, Reading, labels, settle
from kubestow.commands.core.waiting_pods import WaitingPods
from kubestow.models.catalogue import catalogue as catalogues
from kubestow.models.documents import policy as policies
from kubestow.models.documents.answers import Explanation, NodeExplanation, Verification
from kubestow.models.documents.placement import Edits, Placement
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.kube.feature_gates import VERSIONS
from kubestow.models.scheduler.profiles import read_profiles
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.report.documents import results
from kubestow.report.documents.results import Result
from kubestow.solver.kube_scheduler.simulate import simulate as simulate_scheduler
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.runtime.engines import ENGINES
from kubestow.solver.runtime.options import OnProgress, Options, Progress
from kubestow.solver.solve import place

__all__ = [
    "Edits", "Explanation", "Input", "InputError", "InternalFault", "Limits", "NodeExplanation", "Options", "Placement", "PlanOptions",
    "Policy", "Progress", "RebalancePlan", "Verification", "explain", "load", "rebalance", "simulate", "solve", "verify",
]  # fmt: skip

#: A file or, for a snapshot, also a directory.
Path = str | os.PathLike[str]
_Struct = TypeVar("_Struct", Edits, Limits)
_Document = TypeVar("_Document", Placement, RebalancePlan)


@final
@dataclass(frozen=True, eq=False)
class Input:
    """The input that :func:`load` read, for the other functions.

    Attributes:
        snapshot: The snapshot with manifests and edits applied.
        warnings: Suspicious or inconsistent parts of the input.
        policy: The policy, with the weights of preferences.
        workloads: The workloads of the manifests, ``Kind namespace/name``.
    """

    snapshot: Snapshot
    warnings: tuple[str, ...]
    policy: Policy
    workloads: tuple[str, ...]
    _asked: _LoadArguments = field(repr=False)
    _given: core.Given = field(repr=False)

    @property
    def notes(self) -> list[str]:
        """Parts of the input that are ignored or interpreted differently. Results have them too."""
        return self.snapshot.notes


@dataclass(frozen=True)
class _LoadArguments:
    """The arguments of :func:`load`. ``base`` is the snapshot as read, before any change."""

    reading: Reading
    changes: core.WhatIf
    base: Snapshot


def load(
    *paths: Path,
    manifests: Sequence[Path] = (),
    edits: Edits | None = None,
    policy: Policy | Path | None = None,
    catalogue: Path | None = None,
    kubernetes_version: str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    allow_unknown_fields: bool = False,
) -> Input:
    """Read a cluster snapshot, and apply manifests and what-if edits to it.

    >>> given = load("instances/quickstart.yaml", edits=Edits(removeNodes=["b2"]))
    >>> len(given.snapshot.nodes), len(given.snapshot.pods)
    (4, 15)

    Args:
        paths: Files and directories, as for ``kubestow solve``. Several are merged.
        manifests: Manifest files whose pods are added, as with ``-w``.
        edits: What-if edits of the cluster, in the notation of the command line.
        policy: The policy or its file. None means the default policy.
        catalogue: The file of node shapes, for ``edits.buy`` and for remedies.
        kubernetes_version: The version whose rules apply. None means the version of the snapshot, as for commands.
        feature_gates: Feature gates that differ from the defaults of that version.
        allow_unknown_fields: Accept manifest fields that Kubernetes does not define.

    Raises:
        InputError: The input is invalid.
        ValueError: The version or a gate is unknown, or edits lack a catalogue or manifests that they need.
    """
    began = time.monotonic()
    files = _paths(paths)
    _expect("feature_gates", feature_gates, Mapping, type(None))
    if not files:
        raise ValueError("no snapshot: name at least one file")
    if kubernetes_version not in (None, *VERSIONS):
        raise ValueError(f"kubernetes_version: {kubernetes_version!r} is none of {', '.join(VERSIONS)}")
    weighed = policy if isinstance(policy, Policy) else policies.read(_paths([policy])[0]) if policy is not None else policies.DEFAULT
    offered = catalogues.read(_paths([catalogue])[0]) if catalogue is not None else None
    added = Manifests(_paths(manifests), allow_unknown_fields)
    wanted = _typed("edits", edits, Edits) if edits is not None else None
    changes = core.what_if(added, wanted if wanted != Edits() else None, offered)
    how = Reading(weighed, kubernetes_version, dict(feature_gates or {}), empty=changes.buys, where=labels(files))
    snapshot = snapshots.load(files)
    base = snapshot.copy()
    warnings = settle(snapshot, how)
    given = core.given(snapshot, changes, began, weighed)
    warnings += given.after.warnings[len(snapshot.warnings) :] if given.after is not snapshot else []
    return Input(given.after, tuple(warnings), weighed, given.workloads, _LoadArguments(how, changes, base), given)


def solve(
    given: Input, options: Options | None = None, *, on_progress: OnProgress | None = None, stop: threading.Event | None = None
) -> Placement:
    """Place the pending pods, including those of manifests.

    >>> placement = solve(load("instances/quickstart.yaml"), Options(time_limit=20, deterministic=True))
    >>> [pod.pod for pod in placement.unplaced]
    []
    >>> {each.node for each in placement.assignments if each.pod.startswith("shop/report-")} == {"a1", "b1"}
    True

    Args:
        given: The input from :func:`load`, with its policy.
        options: Search options such as the time limit.
        on_progress: Callback for progress, called in the thread of the search.
        stop: Event that ends the search with the incumbent.
    """
    resolved = _input(given)._given.solve_options(_options(given, options))
    return _signed(place(given.snapshot, resolved, on_progress=on_progress, stop=stop), given)


def simulate(
    given: Input, options: Options | None = None, *, scheduler: Path | None = None, runs: int = 1, stop: threading.Event | None = None
) -> Placement:
    """Return the placement that kube-scheduler itself would choose, one pod at a time.

    >>> [pod.pod for pod in simulate(load("instances/quickstart.yaml")).unplaced]
    ['shop/report-0', 'shop/report-1']

    Args:
        given: The input from :func:`load`, with its policy.
        options: Only ``seed``, ``include_gated`` and ``daemon_namespaces`` are used.
        scheduler: The file of a KubeSchedulerConfiguration, or of a ConfigMap that holds one. None: the defaults.
        runs: Number of simulations, at least 1, with one seed after the other. The result is that of the first.
        stop: Event that ends the simulation; the remaining pods stay unplaced.
    """
    if runs < 1:
        raise ValueError(f"runs: {runs} is below 1")
    resolved = _input(given)._given.options(_options(given, options))
    profiles = None if scheduler is None else read_profiles(_paths([scheduler])[0])
    return _signed(simulate_scheduler(given.snapshot, resolved, profiles, runs=runs, stop=stop), given)


def rebalance(
    given: Input, options: PlanOptions, *, on_progress: OnProgress | None = None, stop: threading.Event | None = None
) -> RebalancePlan:
    """Plan moves of running pods in a safe order: every intermediate state obeys the rules.

    >>> plan = rebalance(load("instances/rebalance-drain.yaml"), PlanOptions(drain=("n1",)))
    >>> len(plan.moves), {move.source for move in plan.moves}, plan.obstacles
    (5, {'n1'}, [])

    Args:
        given: The input from :func:`load`, without manifests, and without edits other than ``requests``.
        options: Goals, nodes to drain, limits, and search options.
        on_progress: Callback for progress, as for :func:`solve`.
        stop: Event that ends the search, as for :func:`solve`.
    """
    from kubestow.solver.rebalance.rebalance import rebalance as find

    changes = _input(given)._asked.changes
    _expect("options", options, PlanOptions)
    if changes.manifests.paths or (changes.edits is not None and changes.edits != Edits(requests=changes.edits.requests)):
        raise ValueError("a plan is made without manifests and without edits other than requests")
    limits = _typed("options.limits", options.limits, Limits)
    goals.check(options.goals, options.drain, limits, given.policy)
    resolved = replace(options, limits=limits, options=_options(given, options.options))
    return _signed(find(given.snapshot, resolved, on_progress=on_progress, stop=stop), given)


@overload
def explain(
    given: Input, *, pod: str | None = None, workload: str | None = None, per_node: Literal[False] = False, options: Options | None = None
) -> Explanation: ...
@overload
def explain(
    given: Input, *, pod: str | None = None, workload: str | None = None, per_node: Literal[True], options: Options | None = None
) -> NodeExplanation: ...
def explain(
    given: Input, *, pod: str | None = None, workload: str | None = None, per_node: bool = False, options: Options | None = None
) -> Explanation | NodeExplanation:
    """Return the feasible nodes of each pending pod, and the causes for pods that fit no node.

    Each pod is judged alone against the bound pods.

    >>> answer = explain(load("instances/pending/capacity.yaml"))
    >>> [(each.pod, each.feasible, each.rejected) for each in answer.pods]
    [('default/db-0', 0, {'NodeResourcesFit': 3})]
    >>> [remedy.change for cause in answer.causes for remedy in cause.waysOut]
    ['addNodes', 'evict', 'lowerRequest']

    Args:
        given: The input from :func:`load`, with its policy.
        pod: Explain only this pod, namespace/name. It can also be bound.
        workload: Explain only the pods of this workload, [KIND/][NAMESPACE/]NAME.
        per_node: Return all rejecting rules of every node instead of counts and causes.
        options: Only ``include_gated``, ``daemon_namespaces`` and ``time_limit`` (for causes) are used. The default limit is 10 seconds.

    Raises:
        InputError: The pod or workload does not exist.
    """
    if pod is not None and workload is not None:
        raise ValueError("pod and workload do not go together")
    _expect("pod", pod, str, type(None))
    _expect("workload", workload, str, type(None))
    resolved = _options(_input(given), options or Options(time_limit=10.0))
    waiting = WaitingPods(given.snapshot, given.policy, resolved.include_gated, resolved.daemon_namespaces)
    verdicts = waiting.judge(pod=pod, workload=workload)
    if per_node:
        return results.node_explanation(verdicts, given.notes, given.snapshot.gates)
    questions = waiting.questions(verdicts, whole=workload is not None)
    causes = waiting.causes(questions, resolved.time_limit, given._given.catalogue) if questions else []
    return results.explanation(verdicts, causes, given.notes, given.snapshot.gates)


def verify(given: Input, result: Result | Path) -> Verification:
    """Check a result against the raw objects, independently of the solver.

    >>> given = load("instances/quickstart.yaml")
    >>> placement = solve(given)
    >>> verify(given, placement).valid
    True
    >>> placement.assignments[0].node = "c1"
    >>> verify(given, placement).valid
    False

    Args:
        given: The input of the result, with the same manifests. Edits, policy and version are taken from the result.
        result: A Placement, RebalancePlan, Fit, Sizing, Survival or Upgrade, or its file.

    Raises:
        InputError: The result cannot be read, or its manifests differ from those of the input.
        ValueError: The edits or the version of the input differ from those of the result.
    """
    arguments = _input(given)._asked
    _expect("result", result, *get_args(Result), str, os.PathLike)
    document = results.as_read(result) if not isinstance(result, str | os.PathLike) else results.read_result(_paths([result])[0])
    manifests, edits = arguments.changes.manifests, arguments.changes.edits
    if manifests.paths and (misused := judging.manifests_misused(document, "checked")) is not None:
        raise ValueError(misused)
    if edits is not None and edits != document.snapshot.edits:
        raise ValueError("the edits of the input differ from those of the result: load the input without edits, the result has its own")
    base = arguments.base.copy()
    settle(base, replace(arguments.reading, policy=None, result=document, empty=False))
    judged = judging.judge(base, document, manifests)
    return results.verification(judged.violations, assumptions(document), judged.open, base.notes)


def _paths(paths: Sequence[Path]) -> tuple[str, ...]:
    if isinstance(paths, str | os.PathLike):
        raise ValueError(f"expected a list of files, got {os.fspath(paths)!r}")
    for path in paths:
        _expect("files", path, str, os.PathLike)
    found = tuple(os.fspath(path) for path in paths)
    if "-" in found:
        raise ValueError("standard input (-) is for the command line")
    for path in found:
        if "\n" in path and not os.path.lexists(path):
            raise ValueError(f"expected file names, got a text of {len(path.splitlines())} lines: write it to a file")
    return found


def _input(given: Input) -> Input:
    _expect("given", given, Input)
    return given


def _expect(name: str, value: object, *kinds: type) -> None:
    """Raise TypeError if an argument has none of the given types."""
    if not isinstance(value, kinds):
        expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise TypeError(f"{name}: expected {expected}, got {type(value).__name__}")


def _typed(name: str, value: _Struct, kind: type[_Struct]) -> _Struct:
    """Return a copy of a Struct after checking the types of its fields."""
    try:
        return msgspec.convert(msgspec.to_builtins(value), kind)
    except msgspec.ValidationError as error:
        raise InputError([f"{name}: {error}"]) from None


def _options(given: Input, options: Options | None) -> Options:
    """Return the options with the policy of the input."""
    chosen = Options() if options is None else options
    _expect("options", chosen, Options)
    if chosen.policy not in (policies.DEFAULT, given.policy):
        raise ValueError("options.policy: the policy is given to load")
    if chosen.engine not in ENGINES:
        raise ValueError(f"options.engine: {chosen.engine!r} is none of {', '.join(ENGINES)}")
    return replace(chosen, policy=given.policy)


def _signed(result: _Document, given: Input) -> _Document:
    given._given.sign(result)
    return result
