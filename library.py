"""The functions of the library, which ``import kubestow`` offers."""

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
from kubestow.commands.core import goals, judging, reading
from kubestow.commands.core.judging import Result
from kubestow.models.catalogue import catalogue as catalogues
from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents import policy as policies
from kubestow.models.documents.answers import Explanation, NodeExplanation, Verification
from kubestow.models.documents.placement import Edits, Placement
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Limits, RebalancePlan
from kubestow.models.documents.sizing import Sizing
from kubestow.models.kube.feature_gates import VERSIONS
from kubestow.models.snapshot import snapshot as snapshots
from kubestow.models.snapshot.snapshot import InputError, Snapshot
from kubestow.models.workloads.expand import Expansion
from kubestow.report.documents import results
from kubestow.solver.rebalance.problem.options import PlanOptions
from kubestow.solver.runtime.options import Engine, OnProgress, Options, Progress

__all__ = [
    "Edits", "Explanation", "Input", "InputError", "InternalFault", "Limits", "NodeExplanation", "Options", "Placement", "PlanOptions",
    "Policy", "Progress", "RebalancePlan", "Verification", "explain", "load", "rebalance", "solve", "verify",
]  # fmt: skip

#: A file or, for a snapshot, also a directory.
Path = str | os.PathLike[str]
_Struct = TypeVar("_Struct", Edits, Limits)
_Document = TypeVar("_Document", Placement, RebalancePlan)
_GOALS = ("repair", "improve", "consolidate", "admit")
#: What the limits of a plan may be at most, as on the command line.
_MOST = {"maxMoves": 2**31 - 1, "maxMovesPerNamespace": 2**31 - 1, "maxMovesPerWorkload": 2**31 - 1, "maxWaves": 2**31 - 1,
         "maxFreed": 2**31 - 1, "maxEvictions": 2**31 - 1, "minGain": 10**6}  # fmt: skip


@final
@dataclass(frozen=True, eq=False)
class Input:
    """What :func:`load` read: ``snapshot`` with manifests and edits in it, ready for the other functions. ``warnings``: what is odd about
    it. ``policy``: what preferences weigh. ``workloads``: those of the manifests, ``Kind namespace/name``."""

    snapshot: Snapshot
    warnings: tuple[str, ...]
    policy: Policy
    workloads: tuple[str, ...]
    _asked: _Asked = field(repr=False)
    _expansion: Expansion = field(repr=False)

    @property
    def notes(self) -> list[str]:
        """Return what of the input is not taken into account, or otherwise than it says; results say it, too."""
        return self.snapshot.notes


@dataclass(frozen=True)
class _Asked:
    """The arguments of a load. ``base``: the snapshot as it was read, before anything was made of it."""

    reading: reading.Reading
    manifests: tuple[str, ...]
    edits: Edits | None
    catalogue: Catalogue | None
    unknown_fields: bool
    base: Snapshot
    seconds: float


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
    """Read a snapshot of a cluster, and what is to be tried with it.

    >>> given = load("instances/quickstart.yaml", edits=Edits(removeNodes=["b2"]))
    >>> len(given.snapshot.nodes), len(given.snapshot.pods)
    (4, 15)

    Args:
        paths: files and directories, as for ``kubestow solve``; several are merged.
        manifests: files whose pods are added (``-w``).
        edits: what if the cluster were another one; each edit as the command line writes it.
        policy: what preferences weigh, or its file.
        catalogue: the file of nodes that can be had, for ``edits.buy`` and for the ways out of causes.
        kubernetes_version: by whose rules is judged; None: the snapshot's, as the commands take it.
        feature_gates: feature gates that are on or off otherwise than that version has them.
        allow_unknown_fields: let fields of manifests through that Kubernetes' types do not have.

    Raises:
        InputError: what is wrong with any of it.
        ValueError: no such version or gate, edits without what they need.
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
    added = _paths(manifests)
    wanted = _edits(edits, added, offered)
    asked = reading.Reading(files, weighed, kubernetes_version, dict(feature_gates or {}), empty=wanted is not None and bool(wanted.buy))
    snapshot = snapshots.load(files)
    base = snapshot.copy()
    warnings = reading.settle(snapshot, asked)
    given = _Given(added, allow_unknown_fields)
    expansion = given.edit(snapshot, wanted)
    warnings += expansion.snapshot.warnings[len(snapshot.warnings) :] if expansion.snapshot is not snapshot else []
    request = _Asked(asked, added, wanted, offered, allow_unknown_fields, base, time.monotonic() - began)
    return Input(expansion.snapshot, tuple(warnings), weighed, tuple(expansion.workloads), request, expansion)


def solve(
    given: Input, options: Options | None = None, *, on_progress: OnProgress | None = None, stop: threading.Event | None = None
) -> Placement:
    """Place every pending pod, those of the manifests included.

    >>> placement = solve(load("instances/quickstart.yaml"), Options(time_limit=20, deterministic=True))
    >>> [pod.pod for pod in placement.unplaced]
    []
    >>> {each.node for each in placement.assignments if each.pod.startswith("shop/report-")} == {"a1", "b1"}
    True

    Args:
        given: as of :func:`load`, with its policy.
        options: how to search, and for how long.
        on_progress: hears how far the search is, in the thread of the search.
        stop: ends the search with the best result so far, once it is set.
    """
    from kubestow.solver.solve import place

    asked = _options(_input(given), options)
    of_input = given._asked
    asked = replace(
        asked,
        search_strategy=asked.search_strategy or given.policy.strategy != "spread",
        workloads=given.workloads,
        edits=of_input.edits,
        unmodelled=tuple(given._expansion.unmodelled),
        catalogue=_left_to_buy(of_input),
    )
    placement = place(given.snapshot, asked, on_progress=on_progress, stop=stop)
    return _signed(placement, given)


def rebalance(
    given: Input, options: PlanOptions, *, on_progress: OnProgress | None = None, stop: threading.Event | None = None
) -> RebalancePlan:
    """Plan which running pods move where, and in which order, such that nothing breaks on the way.

    >>> plan = rebalance(load("instances/rebalance-drain.yaml"), PlanOptions(drain=("n1",)))
    >>> len(plan.moves), {move.source for move in plan.moves}, plan.obstacles
    (5, {'n1'}, [])

    Args:
        given: as of :func:`load`, without manifests, and with no other edits than ``requests``.
        options: goals, nodes to drain, limits, and how to search.
        on_progress, stop: as for :func:`solve`.
    """
    from kubestow.solver.rebalance.rebalance import rebalance as find

    edits = _input(given)._asked.edits
    _expect("options", options, PlanOptions)
    if given._asked.manifests or (edits is not None and edits != Edits(requests=edits.requests)):
        raise ValueError("a plan is made without manifests and without edits other than requests")
    limits = _typed("options.limits", options.limits, Limits)
    limits = msgspec.structs.replace(limits, alsoMove=list(dict.fromkeys(limits.alsoMove)))
    unknown = [f"{goal!r} is no goal (expected {', '.join(_GOALS)})" for goal in options.goals if goal not in _GOALS]
    unknown += [
        f"alsoMove: {name!r} is neither bare nor local-storage" for name in limits.alsoMove if name not in ("bare", "local-storage")
    ]
    values = ((name, getattr(limits, name), most) for name, most in _MOST.items())
    unknown += [f"{name}: {value} is not in the range 0 to {most}" for name, value, most in values if not 0 <= (value or 0) <= most]
    wrong = [*unknown, *goals.misuses(options.goals, options.drain, limits), *filter(None, [goals.priced(limits, given.policy)])]
    if wrong:
        raise ValueError("\n".join(wrong))
    asked = replace(options, limits=limits, options=_options(given, options.options))
    plan = find(given.snapshot, asked, on_progress=on_progress, stop=stop)
    plan.snapshot.edits = edits
    return _signed(plan, given)


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
    """Say where each pending pod could go, each judged alone against the bound pods, and why those that fit nowhere do not.

    >>> answer = explain(load("instances/pending/capacity.yaml"))
    >>> [(each.pod, each.feasible, each.rejected) for each in answer.pods]
    [('default/db-0', 0, {'NodeResourcesFit': 3})]
    >>> [remedy.change for cause in answer.causes for remedy in cause.waysOut]
    ['addNodes', 'evict']

    Args:
        given: as of :func:`load`, with its policy.
        pod: judge this pod only, namespace/name; it may also be bound.
        workload: judge the pods of this workload only, [KIND/][NAMESPACE/]NAME.
        per_node: for every node all rules that reject it, instead of numbers and causes.
        options: ``include_gated``, ``daemon_namespaces``, and ``time_limit`` for causes, 10 seconds without options.

    Raises:
        InputError: no such pod or workload.
    """
    if pod is not None and workload is not None:
        raise ValueError("pod and workload do not go together")
    _expect("pod", pod, str, type(None))
    _expect("workload", workload, str, type(None))
    asked = _options(_input(given), options or Options(time_limit=10.0))
    waiting = judging.Waiting(given.snapshot, given.policy, asked.include_gated, asked.daemon_namespaces)
    verdicts = waiting.judge(pod=pod, workload=workload)
    if per_node:
        return results.node_explanation(verdicts, given.notes, given.snapshot.gates)
    left = waiting.questions(verdicts, whole=workload is not None)
    causes = waiting.causes(left, asked.time_limit, _left_to_buy(given._asked)) if left else []
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
        given: the input of the result, with the manifests it was made with. Edits, policy and version are those that the result names.
        result: a Placement, RebalancePlan, Fit, Sizing, Survival or Upgrade, or the file of one.

    Raises:
        InputError: the result cannot be read, or its manifests are not those of the input.
        ValueError: the input has other edits than the result, or is judged by another version.
    """
    asked = _input(given)._asked
    _expect("result", result, *get_args(Result), str, os.PathLike)
    document = results.as_read(result) if not isinstance(result, str | os.PathLike) else results.read_result(_paths([result])[0])
    if asked.manifests and (misused := judging.manifests_misused(document, "checked")) is not None:
        raise ValueError(misused)
    if asked.edits is not None and asked.edits != document.snapshot.edits:
        raise ValueError("the input has other edits than the result: load it without, the result names its own")
    base = asked.base.copy()
    read = replace(asked.reading, policy=None, result=document.snapshot, of=document.policy, empty=isinstance(document, Sizing))
    reading.settle(base, read)
    judged = judging.judge(base, document, _Given(asked.manifests, asked.unknown_fields))
    return results.verification(judged.violations, assumptions(document), judged.open, base.notes)


@dataclass(frozen=True)
class _Given:
    """Manifests, read for the gates of the snapshot that they are added to (:class:`kubestow.commands.core.judging.Given`)."""

    paths: tuple[str, ...]
    unknown_fields: bool

    def edit(self, snapshot: Snapshot, edits: Edits | None, *, manifests: bool = True) -> Expansion:
        return reading.edit(snapshot, edits, self.revision(snapshot, edits) if manifests else None, self.paths)

    def revision(self, snapshot: Snapshot, edits: Edits | None) -> Snapshot | None:
        namespace = edits.namespace if edits is not None else None
        return reading.read_manifests(self.paths, snapshot.gates, namespace, unknown_fields=self.unknown_fields) if self.paths else None


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
            raise ValueError(f"expected names of files, got a text of {len(path.splitlines())} lines: write it to a file")
    return found


def _input(given: Input) -> Input:
    _expect("given", given, Input)
    return given


def _expect(name: str, value: object, *kinds: type) -> None:
    """Raise TypeError where an argument is of none of these types."""
    if not isinstance(value, kinds):
        expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise TypeError(f"{name}: expected {expected}, got {type(value).__name__}")


def _typed(name: str, value: _Struct, kind: type[_Struct]) -> _Struct:
    """Return a Struct whose fields are of their types."""
    try:
        return msgspec.convert(msgspec.to_builtins(value), kind)
    except msgspec.ValidationError as error:
        raise InputError([f"{name}: {error}"]) from None


def _edits(edits: Edits | None, manifests: Sequence[str], catalogue: Catalogue | None) -> Edits | None:
    """Return the edits, with the shapes of what is bought."""
    if edits is None:
        return None
    edits = _typed("edits", edits, Edits)
    wrong = reading.misused(edits, manifests, catalogue is not None)
    if wrong is not None:
        raise ValueError(wrong)
    if catalogue is not None:
        edits.shapes = catalogue.used(edits.buy)
    return edits if edits != Edits() else None


def _left_to_buy(asked: _Asked) -> Catalogue | None:
    bought = asked.edits.buy if asked.edits is not None else []
    return asked.catalogue.without(bought) if asked.catalogue is not None else None


def _options(given: Input, options: Options | None) -> Options:
    """Return the options with the policy of the input."""
    chosen = Options() if options is None else options
    _expect("options", chosen, Options)
    if chosen.policy not in (policies.DEFAULT, given.policy):
        raise ValueError("options.policy: the policy is given to load")
    if chosen.engine not in get_args(Engine):
        raise ValueError(f"options.engine: {chosen.engine!r} is none of {', '.join(get_args(Engine))}")
    return replace(chosen, policy=given.policy)


def _signed(result: _Document, given: Input) -> _Document:
    reading.sign(result, given.snapshot)
    if result.seconds is not None:
        result.seconds.load = round(given._asked.seconds, 3)
    return result
