"""The plan face of a rule: its verdicts on pods that run and move, for plans, rollouts and capacity.

Every default is safe for a rule that nobody has heard of. Its resident pods are judged again after every
landing. A pod that concerns it moves in a wave of its own. A step of such a pod may unblock every other such
pod. The model of end states leaves the rule out, which is a relaxation, and the order of the steps checks it.
``PLAN_FACES`` of :mod:`kubestow.solver.rules` names the face of each rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from kubestow.models.cluster.cluster import Ids, Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.plan_state import PlanProblem
from kubestow.solver.rules.residents import JoiningNodes, ResidentPods
from kubestow.solver.rules.waves import SymmetricGuard, WaveGuard

if TYPE_CHECKING:
    from kubestow.models.devices.inventory import Pick
    from kubestow.solver.rules.end_states import EndStateModel, EndStates

R = TypeVar("R", bound=Rule)


class PlanFace(Generic[R]):
    """One rule in plans.

    Attributes:
        rule: The rule, in the state that the method asks for.
        residents: Resident pods under the rule. None if a landing that the rule accepts never breaks it for others.
        guard: The rule in the waves of a plan. None if no other pod can change its verdict.
        execution_fields: The fields of an affinity whose rules the filter checks, for rules that must hold
            during execution.
        monotone: True if the rule never gets stricter when pods leave.
        never_is_final: True if ``never`` holds wherever running pods move.
        reads_node: True if ``never`` depends on properties of a node other than its pods, its free capacity and
            its topology domains.
        selects_nodes: True if the rule is about labels or taints of nodes.
        by_selector: True if the verdict depends on the pods of :meth:`selectors` in the node's topology domains.
        ties_to_data: True if the rule keeps a pod on the nodes that reach its data.
    """

    residents: ClassVar[type[ResidentPods[Any]] | None] = ResidentPods
    guard: ClassVar[type[WaveGuard[Any]] | None] = WaveGuard
    execution_fields: ClassVar[tuple[str, ...]] = ()
    monotone: ClassVar[bool] = False
    never_is_final: ClassVar[bool] = False
    reads_node: ClassVar[bool] = True
    selects_nodes: ClassVar[bool] = False
    by_selector: ClassVar[bool] = False
    ties_to_data: ClassVar[bool] = False

    def __init__(self, rule: R) -> None:
        self.rule = rule

    # --- pods that run -------------------------------------------------------------------------------------------------

    def joining_nodes(self, come_and_go: Bools) -> JoiningNodes | None:
        """Return the rule's view of nodes that join and leave. None if nodes without pods do not matter.

        Args:
            come_and_go: Nodes that do not always exist, bool[N].
        """
        return None

    def while_running(self, problem: PlanProblem) -> Rule:
        """Return the rule, in the state of the fixed pods, with ``never`` and ``room`` for pods that already run."""
        return self.rule

    # --- the order of steps --------------------------------------------------------------------------------------------

    def selectors(self, g: int) -> list[int]:
        """Return the numbers of the selectors whose pods the verdict on the class depends on."""
        return []

    def kept(self, g: int) -> bool:
        """Return True if the pods placed with the class break the rule for none of them in the final state."""
        return True

    def links(self) -> list[list[int]]:
        """Return groups of classes whose steps affect each other on any node, apart from those by :meth:`selectors`."""
        concerned = [g for g in range(self.rule.cluster.n_classes) if self.rule.concerned(g)]
        return [concerned] if concerned else []

    def counted(self, g: int) -> Bools | None:
        """Return the classes without whose pods the rule may get stricter for class g, bool[G]; None if unknown."""
        return None

    def move_domains(self, g: int) -> list[Ids]:
        """Return the domains, int32[N], inside which many moves of the class share a wave."""
        return []

    def level(self, g: int) -> Ints | None:
        """Return the fill level of the class's domain on each node, int64[N]: emptier ones are filled first. None if it does not matter."""
        return None

    def picks(self, g: int, n: int) -> tuple[Pick, ...] | None:
        """Return the devices that the last pod of class g on node n took; None if the rule gives it none."""
        return None

    # --- room for pods -------------------------------------------------------------------------------------------------

    def conflicts(self, g: int) -> list[tuple[int, str]]:
        """Return the classes that exclude a pod of class g from a domain, each with its topology key ("": the node itself).

        Without exception, exactly the pods of these classes have to leave the domain. Other reasons are found by
        trial.
        """
        return []

    def vouch(self, classes: Sequence[int], nodes: Bools) -> Any:
        """Judge as if pods of these classes were near each of these nodes, bool[N]. Return the argument of :meth:`unvouch`."""

    def unvouch(self, vouched: Any) -> None:
        """Undo :meth:`vouch`."""

    # --- end states ----------------------------------------------------------------------------------------------------

    def encode_always(self, model: EndStateModel) -> None:
        """Add the constraints of every state that steps can reach."""

    def encode_end(self, states: EndStates) -> None:
        """Add the rule to a model of end states, and the literals of pods that may break it.

        By default, pods break the rule where it never holds. Rules that depend on other pods count as repaired.
        """
        for g, n in states.cells(self.rule.name):
            if self.rule.static or self.rule.never(g)[n]:
                states.broken[g, n, self.rule.name] = []

    def attainable(self, problem: PlanProblem, counts: Ints, target: Ints) -> bool:
        """Return False if no order of steps leads from the start to an end state.

        Args:
            counts: Running pods in the rule's state, int64[G, N].
            target: The end state, int64[G, N].
        """
        return True


class IndependentFace(PlanFace[R]):
    """A rule whose verdict on a resident pod no landing changes, because it checks only pods that land."""

    residents = None
    guard: ClassVar[type[WaveGuard[Any]] | None] = SymmetricGuard
    never_is_final = True
    reads_node = False

    def links(self) -> list[list[int]]:
        return self.rule.order_links()


class StaticFace(IndependentFace[R]):
    """A rule whose verdict depends only on pod and node."""

    guard = None
    reads_node = True
