"""The value of a plan, and the state of a cluster before and after it, computed by the checker from the raw objects.

Preferences and balance refer to the *subjects*: running pods that may be moved or that have rules which depend on
others, and with the goal admit the pending pods. Subjects count as if placed, by their spec; all other pods are
fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from kubestow.checker.objective import preferences, tie_break
from kubestow.checker.plan.document import PLAN, PlanEntry
from kubestow.checker.plan.move_cost import Cost
from kubestow.checker.plan.state import Board
from kubestow.checker.rules.plans import PlanRunner
from kubestow.checker.violation import Violation, is_mirror, stays_with_node
from kubestow.models.documents.placement import FamilyResult, TierResult
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import NodeUse, RebalancePlan, Summary
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import objects

#: Units of balance that equal one point of preferences.
_BALANCE_UNITS_PER_POINT: Final = 10_000
_CONTROL: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_KEPT: Final = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
_SCHEDULERS: Final = ("NodeAffinity", "TaintToleration")
_TIERS: Final = {"drain": "drained", "repair": "rules", "consolidate": "freed", "improve": "improve"}


def may_be_freed(node: objects.Node) -> bool:
    """Return True if consolidation may free the node: it is no control plane and carries no annotation that keeps it."""
    labels, notes = node.metadata.labels or {}, node.metadata.annotations or {}
    return not any(key in labels for key in _CONTROL) and all(notes.get(key) != "true" for key in _KEPT)


class PlanLedger:
    """The counts and values of a plan on the current board.

    Args:
        board: The board at the start.
        policy: The policy.
        subjects: Keys of the running pods that count as placed.
        pending: Keys of the pods to be placed.
        gangs: Gangs of the pending pods.
        admits: True if the pending pods count as well.
    """

    def __init__(
        self, board: Board, policy: Policy, subjects: Collection[str], pending: Collection[str], gangs: Sequence[Gang], *, admits: bool
    ) -> None:
        self._board, self._policy, self._pending = board, policy, frozenset(pending)
        self.subjects = frozenset(subjects)
        #: Broken rules that are forgiven, by pod key.
        self.excused: dict[str, frozenset[str]] = {}
        self._wanted = self.subjects | self._pending if admits else self.subjects
        self._gangs = gangs if admits else ()
        self._free_before = len(self.freed())

    def summary(self, broken: Mapping[str, frozenset[str]], names: Collection[str]) -> Summary:
        """Return the current state of the cluster.

        Args:
            broken: Broken rules of running pods, by pod key.
            names: Nodes to be listed.
        """
        board = self._board
        rules = Counter(
            rule
            for key, broke in broken.items()
            for rule in broke
            if rule not in _SCHEDULERS or not is_mirror(board.runners[key].pod)  # the kubelet runs static pods regardless
        )
        families = self._families() if board.nodes else {}
        return Summary(
            emptyNodes=len(self.empty()),
            pending=sum(runner.at is None for runner in board.runners.values()),
            nodes=[self._use(name) for name in sorted(names)],
            rules=dict(sorted(rules.items())),
            preferences=[
                FamilyResult(family, points, points, int(getattr(self._policy.multipliers, family))) for family, points in families.items()
            ],
            balance=self._balance(),
        )

    def _use(self, name: str) -> NodeUse:
        """Return the pods and requests on a node."""
        usage, capacity = self._board.places[name], self._board.places[name].capacity
        return NodeUse(
            name, usage.pods, usage.used.get("cpu", 0), capacity.get("cpu", 0), usage.used.get("memory", 0), capacity.get("memory", 0)
        )

    def _placed(self) -> dict[str, str]:
        """Return the nodes of the pods that count as placed."""
        return {key: runner.at.node for key, runner in self._board.runners.items() if runner.at is not None and key in self._wanted}

    def _families(self) -> dict[str, int]:
        """Return the points per family, without container affinity."""
        return preferences.score(
            self._board.snapshot, self._placed(), self.subjects, self._policy, pending=self._wanted, gangs=self._gangs
        ).families

    def _balance(self) -> int | None:
        """Return the value of the strategy spread, or None without nodes."""
        board = self._board
        if not board.nodes:
            return None
        used = {name: usage.used for name, usage in board.places.items()}
        for runner in (board.runners[key] for key in self._wanted if key in board.runners):
            if runner.at is None or runner.at.placed:
                continue
            holds, asks = board.requests(runner.pod, bound=True), board.requests(runner.pod, bound=False)
            if holds != asks:
                mine = used[runner.at.node] = dict(used[runner.at.node])
                for amounts, by in ((holds, -1), (asks, 1)):
                    for resource, amount in amounts.items():
                        mine[resource] = mine.get(resource, 0) + by * amount
        there = ((r.pod, [r.at.node], r.key not in self._wanted) for r in board.runners.values() if r.at is not None)
        return tie_break.balance(there, used, board.capacity, board.snapshot.gates)

    def counting(self, broken: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        """Return the broken rules that count, by pod key: all except the forgiven ones."""
        return {key: remaining for key, rules in broken.items() if (remaining := rules - self.excused.get(key, frozenset()))}

    # --- nodes --------------------------------------------------------------------------------------------------------------

    def empty(self) -> set[str]:
        """Return the nodes that run only DaemonSet and static pods, or none."""
        used = {runner.at.node for runner in self._board.runners.values() if runner.at is not None and not stays_with_node(runner.pod)}
        return self._board.nodes.keys() - used

    def freed(self) -> set[str]:
        """Return the empty nodes that consolidation may free."""
        return {name for name in self.empty() if may_be_freed(self._board.nodes[name])}

    # --- tiers --------------------------------------------------------------------------------------------------------------

    def value(
        self,
        tier: TierResult,
        plan: RebalancePlan,
        listed: Sequence[PlanEntry],
        ranks: Mapping[str, int],
        broken: Mapping[str, frozenset[str]],
        after: Summary,
        cost: Cost,
    ) -> int | None:
        """Return the value of a tier at the end, or None if prices are used and a node has none.

        Args:
            tier: The tier.
            plan: The plan.
            listed: Its entries.
            ranks: Priority at which pods of gangs count, by key.
            broken: Broken rules of running pods, by key.
            after: Summary of the final state.
            cost: Cost of moving a pod.
        """
        runners = self._board.runners
        moves = [runners[entry.pod].pod for entry in listed if entry.source is not None and entry.target is not None]

        def rank(key: str) -> int:
            return ranks.get(key, runners[key].pod.spec.priority or 0)

        match tier.tier:
            case "drained":
                return -sum(self.is_left(runner, plan.drain) for runner in runners.values())
            case "rules":
                return -sum(len(rules) for key, rules in self.counting(broken).items() if key in self.subjects)
            case "evictions":
                gone = [runners[entry.pod].pod.spec.priority or 0 for entry in listed if entry.target is None]
                return -gone.count(tier.priority or 0)
            case "placed":
                return sum(runners[key].at is not None and rank(key) == tier.priority for key in self._pending & runners.keys())
            case "freed":
                return self._saved(plan.limits.maxFreed)
            case "improve":
                soft = sum(family.value * family.multiplier for family in after.preferences)
                return _BALANCE_UNITS_PER_POINT * (soft - plan.limits.minGain * len(moves)) + (after.balance or 0)
            case _:
                return -sum(cost(pod) for pod in moves)

    @staticmethod
    def is_left(runner: PlanRunner, drain: Collection[str]) -> bool:
        """Return True if a pod still has to leave a node to be drained."""
        return runner.node in drain and runner.steady and not stays_with_node(runner.pod)

    def _saved(self, limit: int | None) -> int | None:
        """Return the number of free nodes, with at most ``limit`` more than at the start. With prices, return the
        negated price of all other nodes, in thousandths.
        """
        free, label = self.freed(), self._policy.priceLabel
        if not label:
            return len(free) if limit is None else min(len(free), self._free_before + limit)
        total = 0
        for name, node in self._board.nodes.items():
            price = tie_break.price_of(node, label)
            if price is None:
                return None
            total -= price if name not in free else 0
        return total


def tier_faults(plan: RebalancePlan, priorities: Collection[int], evicted: Collection[int]) -> Iterator[Violation]:
    """Yield faults of the tiers: their presence, order and bounds.

    Args:
        plan: The plan.
        priorities: Priorities of the pending pods.
        evicted: Priorities of the pods that are evicted for good.
    """

    def fault(why: str) -> Violation:
        return Violation("", "", PLAN, why)

    ranks: dict[tuple[str, int | None], tuple[int, ...]] = {}
    needed: list[tuple[str, int | None]] = []
    for place, goal in enumerate(plan.goals):
        if goal != "admit":
            name = _TIERS.get(goal, goal)
            ranks[name, None] = (place,)
            needed.append((name, None))
    ranks["moves", None] = (len(plan.goals),)
    admits = "admit" in plan.goals
    # Without pods to be placed, only these two goals evict pods, and not the goals after them.
    evicting = [place for place, goal in enumerate(plan.goals) if goal in ("drain", "repair")]
    needed += [("placed", priority) for priority in sorted(priorities)] if admits else []
    needed += [("evictions", priority) for priority in sorted(evicted)] if admits or evicting else []
    needed.append(("moves", None))
    last: tuple[int, ...] = ()
    said: set[tuple[str, int | None]] = set()
    for tier in plan.objective:
        key = tier.tier, tier.priority
        name = tier.tier if tier.priority is None else f"{tier.tier} of priority {tier.priority}"
        if tier.tier in ("placed", "evictions") and tier.priority is not None and admits:
            rank: tuple[int, ...] | None = (plan.goals.index("admit"), -tier.priority, int(tier.tier == "placed"))
        elif tier.tier == "evictions" and tier.priority is not None and evicting:
            rank = (evicting[-1], 1, -tier.priority)
        else:
            rank = ranks.get(key)
        if rank is None:
            yield fault(f"the goals have no tier {name}")
            continue
        if key in said:
            yield fault(f"tier {name} is given twice")
        elif rank < last:
            yield fault(f"tier {name} comes after one of lower rank")
        said.add(key)
        last = max(last, rank)
        if tier.bound < tier.value:
            yield fault(f"tier {name}: the bound {tier.bound} is below the value {tier.value}")
    for missing, priority in needed:
        if (missing, priority) not in said:
            yield fault(f"there is no tier {missing}{f' of priority {priority}' if priority is not None else ''}")
    if plan.status == "optimal" and any(tier.bound != tier.value for tier in plan.objective):
        yield fault("the status is optimal, and a tier has a bound that is not its value")


def summary_faults(said: Summary, found: Summary, when: str) -> Iterator[Violation]:
    """Yield wrong values of a summary. The best possible points of preferences are not judged."""
    for name in ("emptyNodes", "pending", "nodes", "rules", "balance"):
        claim, truth = getattr(said, name), getattr(found, name)
        if claim != truth:
            yield Violation("", "", PLAN, f"{when}.{name} is {_brief(claim)}, it should be {_brief(truth)}")
    claims = [(f.family, f.value, f.multiplier) for f in said.preferences]
    truths = [(f.family, f.value, f.multiplier) for f in found.preferences]
    if claims != truths:
        yield Violation("", "", PLAN, f"{when}.preferences is {_brief(claims)}, it should be {_brief(truths)}")


def _brief(value: object) -> str:
    """Return a value as text of at most 200 characters."""
    text = str(value)
    return text if len(text) <= 200 else text[:199] + "…"
