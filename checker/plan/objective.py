"""What a plan is worth, and a cluster before and after it, computed by the checker from the raw objects.

The pods that preferences and balance speak of are the *subjects*: running pods that may be moved or that have rules of their own for others
to keep, and with the goal admit the pending ones. They count as if placed, by their spec; all other pods are fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from kubestow.checker.objective import preferences, tie_break
from kubestow.checker.plan.document import PLAN, Entry
from kubestow.checker.plan.move_cost import Cost
from kubestow.checker.plan.state import Board, Runner
from kubestow.checker.violation import Violation, is_mirror, stays_with_node
from kubestow.models.documents.placement import FamilyResult, TierResult
from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import NodeUse, RebalancePlan, Summary
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import objects

#: Units of balance that are worth one point of preferences.
_POINT: Final = 10_000
_CONTROL: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_KEPT: Final = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")
_SCHEDULERS: Final = ("NodeAffinity", "TaintToleration")
_TIERS: Final = {"drain": "drained", "repair": "rules", "consolidate": "freed", "improve": "improve"}


def may_be_freed(node: objects.Node) -> bool:
    """Return whether consolidation may free the node: no control plane, and nothing says that it is to be kept."""
    labels, notes = node.metadata.labels or {}, node.metadata.annotations or {}
    return not any(key in labels for key in _CONTROL) and all(notes.get(key) != "true" for key in _KEPT)


class Ledger:
    """``subjects``: keys of the running pods that count as placed; ``pending``: of those to be placed; ``admits``: whether they count, too;
    ``gangs``: of the pending. The board is that of the start."""

    def __init__(
        self, board: Board, policy: Policy, subjects: Collection[str], pending: Collection[str], gangs: Sequence[Gang], *, admits: bool
    ) -> None:
        self._board, self._policy, self._pending = board, policy, frozenset(pending)
        self.subjects = frozenset(subjects)
        #: By key, rules that are broken and forgiven.
        self.excused: dict[str, frozenset[str]] = {}
        self._wanted = self.subjects | self._pending if admits else self.subjects
        self._gangs = gangs if admits else ()
        self._free_before = len(self.freed())

    def summary(self, broken: Mapping[str, frozenset[str]], names: Collection[str]) -> Summary:
        """Return the cluster as it is now. ``broken``: rules by key of the running pods that break any; ``names``: the nodes to be told
        of."""
        board = self._board
        rules = Counter(
            rule
            for key, broke in broken.items()
            for rule in broke
            if rule not in _SCHEDULERS or not is_mirror(board.runners[key].pod)  # a static pod is its kubelet's business
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
        held, capacity = self._board.held[name], self._board.capacity[name]
        return NodeUse(
            name, held.pods, held.used.get("cpu", 0), capacity.get("cpu", 0), held.used.get("memory", 0), capacity.get("memory", 0)
        )

    def _placed(self) -> dict[str, str]:
        """The nodes of the pods that count as placed."""
        return {key: runner.at.node for key, runner in self._board.runners.items() if runner.at is not None and key in self._wanted}

    def _families(self) -> dict[str, int]:
        """Points by family, without those of containers."""
        return preferences.score(
            self._board.snapshot, self._placed(), self.subjects, self._policy, pending=self._wanted, gangs=self._gangs
        ).families

    def _balance(self) -> int | None:
        """The value of the strategy spread; None without nodes."""
        board = self._board
        if not board.nodes:
            return None
        used = {name: held.used for name, held in board.held.items()}
        for name, held in board.held.items():
            for runner in held.resized:
                if runner.key in self._wanted:
                    mine = used[name] = dict(used[name])
                    for amounts, by in ((board.requests(runner.pod, bound=True), -1), (board.requests(runner.pod, bound=False), 1)):
                        for resource, amount in amounts.items():
                            mine[resource] = mine.get(resource, 0) + by * amount
        there = ((r.pod, [r.at.node], r.key not in self._wanted) for r in board.runners.values() if r.at is not None)
        return tie_break.balance(there, used, board.capacity, board.snapshot.gates)

    def counting(self, broken: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        """Return what counts of the rules that running pods break: all but what is forgiven, by key."""
        return {key: rest for key, rules in broken.items() if (rest := rules - self.excused.get(key, frozenset()))}

    # --- nodes --------------------------------------------------------------------------------------------------------------

    def empty(self) -> set[str]:
        """Nodes without pods but DaemonSet and static ones."""
        used = {runner.at.node for runner in self._board.runners.values() if runner.at is not None and not stays_with_node(runner.pod)}
        return self._board.nodes.keys() - used

    def freed(self) -> set[str]:
        """Those of them that consolidation may free."""
        return {name for name in self.empty() if may_be_freed(self._board.nodes[name])}

    # --- tiers --------------------------------------------------------------------------------------------------------------

    def value(
        self,
        tier: TierResult,
        plan: RebalancePlan,
        listed: Sequence[Entry],
        ranks: Mapping[str, int],
        broken: Mapping[str, frozenset[str]],
        after: Summary,
        cost: Cost,
    ) -> int | None:
        """Return what a tier is worth at the end; None where prices are asked for and a node has none. ``ranks``: the priority at which
        pods of gangs count, by key; ``broken``: the rules that running pods break; ``after``: the summary of the end."""
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
                return _POINT * (soft - plan.limits.minGain * len(moves)) + (after.balance or 0)
            case _:
                return -sum(cost(pod) for pod in moves)

    @staticmethod
    def is_left(runner: Runner, drain: Collection[str]) -> bool:
        """Return whether a pod still has to leave a node that is to be drained."""
        return runner.node in drain and runner.steady and not stays_with_node(runner.pod)

    def _saved(self, most: int | None) -> int | None:
        """Nodes that are free, no more than ``most`` more than at the start, or the negative price of all others, in thousandths."""
        free, label = self.freed(), self._policy.priceLabel
        if not label:
            return len(free) if most is None else min(len(free), self._free_before + most)
        total = 0
        for name, node in self._board.nodes.items():
            price = tie_break.price_of(node, label)
            if price is None:
                return None
            total -= price if name not in free else 0
        return total


def tier_faults(plan: RebalancePlan, priorities: Collection[int], evicted: Collection[int]) -> Iterator[Violation]:
    """Return which tiers there are, their order, their bounds. ``priorities``: of the pending pods; ``evicted``: of the pods that go for
    good."""

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
    # Without pods to be placed they are evicted for these two, not for the goals behind them.
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
            yield fault(f"tier {name} stands behind one of less weight")
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
    """Return what a summary says wrongly. How much preferences could have at best is not judged."""
    for name in ("emptyNodes", "pending", "nodes", "rules", "balance"):
        claim, truth = getattr(said, name), getattr(found, name)
        if claim != truth:
            yield Violation("", "", PLAN, f"{when}.{name} is {_brief(claim)}, it should be {_brief(truth)}")
    claims = [(f.family, f.value, f.multiplier) for f in said.preferences]
    truths = [(f.family, f.value, f.multiplier) for f in found.preferences]
    if claims != truths:
        yield Violation("", "", PLAN, f"{when}.preferences is {_brief(claims)}, it should be {_brief(truths)}")


def _brief(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:199] + "…"
