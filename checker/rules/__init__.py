"""The scheduler's filters as the checker reads them, one folder per plugin, as in ``solver/rules``.

Enter at :func:`build`. The module ``rule`` of a folder has the rules, which are found. Nothing else in the checker
names one. :mod:`kubestow.checker.rules.base` has the interface. A rule imports :mod:`kubestow.checker.reading` and the
parts of ``models`` open to the checker, and no code of the solver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

from kubestow.checker.reading.gang_roster import Roster
from kubestow.checker.rules.base import CheckedRule, CreationLedger, Fault, StaticRule, World
from kubestow.checker.rules.plans import BoardState, PlanFace, StaticFace
from kubestow.checker.violation import Violation
from kubestow.models.documents.placement import Assignment, Placement
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

Kind = type[CheckedRule[Any]]


def _found() -> Iterator[Kind]:
    """Yield the rules of all folders."""
    for folder in iter_modules(__path__):
        if folder.ispkg:
            module = import_module(f"{__name__}.{folder.name}.rule")
            for kind in vars(module).values():
                if isinstance(kind, type) and issubclass(kind, CheckedRule) and kind.__module__ == module.__name__:
                    yield kind


ALL: tuple[Kind, ...] = tuple(sorted(_found(), key=lambda kind: (kind.order, kind.names)))


def _plan_faces() -> Iterator[type[PlanFace[Any]]]:
    """Yield the plan faces of all folders: those of small rules are in the module ``rule``."""
    for folder in iter_modules(__path__):
        for name in ("rule", "plans") if folder.ispkg else ():
            full = f"{__name__}.{folder.name}.{name}"
            if find_spec(full) is not None:
                yield from (face for face in vars(import_module(full)).values() if isinstance(face, type) and issubclass(face, PlanFace))


#: The plan face of each rule. A rule without one gets the safe defaults.
PLAN_FACES: dict[Kind | None, type[PlanFace[Any]]] = {face.of: face for face in _plan_faces() if face.of is not None}


def plan_face(rule: CheckedRule[Any], board: BoardState) -> PlanFace[Any]:
    """Return the face of a rule for plans."""
    return PLAN_FACES.get(type(rule), StaticFace if isinstance(rule, StaticRule) else PlanFace)(rule, board)


def build(world: World, having: Callable[[Kind], bool] = lambda kind: True) -> Sequence[CheckedRule[Any]]:
    """Return the rules of the registry over a cluster, without any pods. ``having``: only rules with a trait."""
    built = [kind(world) for kind in ALL if having(kind)]
    world.suppliers = [rule for rule in built if type(rule).left_to_the_node is not CheckedRule.left_to_the_node]
    return built


def document_faults(
    snapshot: Snapshot, placement: Placement, roster: Roster, entries: Sequence[Assignment], refusals: Mapping[str, str | None]
) -> list[Violation]:
    """Return :meth:`CheckedRule.document_faults` of all rules."""
    return [fault for kind in ALL for fault in kind.document_faults(snapshot, placement, roster, entries, refusals)]


def refused(snapshot: Snapshot, policy: Policy = DEFAULT, exempt: Collection[str] = ()) -> dict[str, Fault]:
    """Return :meth:`CheckedRule.refused` of all rules.

    Raises:
        QuantityError: a quantity in the snapshot is malformed or beyond 64 bits.
    """
    found: dict[str, Fault] = {}
    for kind in ALL:
        found = {**kind.refused(snapshot, policy, exempt), **found}
    return found


class Creations(CreationLedger):
    """The ledgers of all rules that refuse pods at creation.

    Args:
        snapshot: The snapshot.
        absent: Keys of pods of the snapshot that do not exist (yet).
        policy: The policy.
        exempt: Namespaces that are exempt from required anti-affinity.
    """

    def __init__(self, snapshot: Snapshot, absent: Collection[str] = (), *, policy: Policy = DEFAULT, exempt: Collection[str] = ()) -> None:
        made = (kind.creations(snapshot, absent, policy, exempt) for kind in ALL)
        self._ledgers = [ledger for ledger in made if ledger is not None]

    def fault(self, pod: objects.Pod) -> Fault | None:
        return next((fault for ledger in self._ledgers if (fault := ledger.fault(pod)) is not None), None)

    def create(self, pod: objects.Pod) -> None:
        for ledger in self._ledgers:
            ledger.create(pod)

    def remove(self, pod: objects.Pod) -> None:
        for ledger in self._ledgers:
            ledger.remove(pod)

    def forget(self, pod: objects.Pod) -> None:
        for ledger in self._ledgers:
            ledger.forget(pod)


def released(snapshot: Snapshot, gone: Collection[str]) -> Snapshot:
    """Return the snapshot without the objects that are deleted with the pods of these keys."""
    for kind in ALL:
        snapshot = kind.released(snapshot, gone)
    return snapshot


def supplied(snapshot: Snapshot) -> frozenset[str]:
    """Return the resources that rules supply on nodes that lack them."""
    return frozenset(name for kind in ALL for name in kind.supplied(snapshot))
