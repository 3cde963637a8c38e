"""How much of the GPUs any placement of tasks of openb can allocate at most: cutting stock over kinds of nodes, by column generation.

The linear program lets tasks and nodes be split: per kind of node the CPU, the memory and the GPUs of all its nodes are one pool, each GPU
is cut by a pattern of shares, and no task comes more often than it arrived. The solver's answer in floating point is only
a hint: its dual values are rounded to whole numbers and completed to a dual solution that is feasible in integers, so that the bound is
valid in any case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ortools.math_opt.python import mathopt

from tests.benchmarks import openb
from tests.benchmarks.openb import WHOLE, Machine, Task

#: A kind of node: mCPU, MiB, GPUs.
Kind = tuple[int, int, int]
#: How often each share is cut from one GPU.
Pattern = Mapping[int, int]
#: Dual values are multiples of one over this.
UNIT = 2**30
ROUNDS = 60


def bound(nodes: list[Machine], arrivals: list[Task]) -> int:
    """Return the thousandths of GPUs that no placement of these tasks exceeds."""
    return priced(nodes, arrivals)[0]


def priced(nodes: list[Machine], arrivals: list[Task]) -> tuple[int, frozenset[Task]]:
    """Return the bound, and the tasks that are worth more than the room they take: where not all can be placed, rather these."""
    program = _Program(openb.kinds(nodes), Counter(arrivals))
    best, kept = min(openb.capacity(nodes), sum(task.load for task in arrivals)), frozenset(arrivals)
    for _ in range(ROUNDS):
        cpu, memory, shares = program.solve()
        upper, gain, new = program.safe(cpu, memory, shares)
        if upper < best:
            best, kept = upper, frozenset(task for task, more in gain.items() if more > UNIT)
        if not program.add(new):
            break
    return best, kept


class _Program:
    def __init__(self, kinds: Mapping[Kind, int], wanted: Mapping[Task, int]) -> None:
        self._kinds, self._wanted = kinds, wanted
        self._shares = sorted({task.share for task in wanted if task.gpus == 1})
        self._fitting = {k: [t for t in wanted if t.cpu <= k[0] and t.memory <= k[1] and t.gpus <= k[2]] for k in kinds}
        self._patterns: list[dict[int, int]] = [{share: WHOLE // share} for share in self._shares]

    def add(self, patterns: list[dict[int, int]]) -> bool:
        """Let GPUs be cut in these ways as well; whether one is new."""
        before = len(self._patterns)
        for pattern in patterns:
            if pattern not in self._patterns:
                self._patterns.append(pattern)
        return len(self._patterns) > before

    def solve(self) -> tuple[dict[Kind, int], dict[Kind, int], dict[Kind, dict[int, int]]]:
        """Return the value of a mCPU and a MiB of each kind of node, and of each share of its GPUs, in parts of ``UNIT``."""
        model = mathopt.Model()
        arrived = {task: model.add_linear_constraint(ub=count) for task, count in self._wanted.items()}
        rows = {}
        for kind, number in self._kinds.items():
            cpu, memory, gpus = (model.add_linear_constraint(ub=amount * number) for amount in kind)
            cut = {share: model.add_linear_constraint(ub=0) for share in self._shares}
            rows[kind] = cpu, memory, cut
            for task in self._fitting[kind]:
                x = model.add_variable(lb=0)
                model.objective.set_linear_coefficient(x, task.load)
                arrived[task].set_coefficient(x, 1)
                cpu.set_coefficient(x, task.cpu)
                memory.set_coefficient(x, task.memory)
                if task.gpus == 1:
                    cut[task.share].set_coefficient(x, 1)
                else:
                    gpus.set_coefficient(x, task.gpus)
            for pattern in self._patterns:
                q = model.add_variable(lb=0)
                gpus.set_coefficient(q, 1)
                for share, times in pattern.items():
                    cut[share].set_coefficient(q, -times)
        model.objective.is_maximize = True
        result = mathopt.solve(model, mathopt.SolverType.GLOP)
        dual = result.dual_values() if result.has_dual_feasible_solution() else {}

        def whole(row: mathopt.LinearConstraint) -> int:
            return max(0, round(float(dual.get(row, 0.0)) * UNIT))

        return (
            {kind: whole(cpu) for kind, (cpu, _, _) in rows.items()},
            {kind: whole(memory) for kind, (_, memory, _) in rows.items()},
            {kind: {share: whole(row) for share, row in cut.items()} for kind, (_, _, cut) in rows.items()},
        )

    def safe(
        self, cpu: Mapping[Kind, int], memory: Mapping[Kind, int], shares: Mapping[Kind, Mapping[int, int]]
    ) -> tuple[int, dict[Task, int], list[dict[int, int]]]:
        """Return the bound that follows from such values, what each task allocates beyond the worth of what it takes, and the patterns by
        which GPUs are worth most.

        By weak duality any values do: a GPU is worth as much as its best pattern, and a task goes where the worth of what it takes is
        least.
        """
        total, patterns, gain = 0, [], dict.fromkeys(self._wanted, 0)
        for kind, number in self._kinds.items():
            gpu, pattern = self._best(shares[kind])
            patterns.append(pattern)
            total += number * (kind[0] * cpu[kind] + kind[1] * memory[kind] + kind[2] * gpu)
            for task in self._fitting[kind]:
                paid = task.cpu * cpu[kind] + task.memory * memory[kind]
                paid += shares[kind][task.share] if task.gpus == 1 else task.gpus * gpu
                gain[task] = max(gain[task], task.load * UNIT - paid)
        total += sum(count * gain[task] for task, count in self._wanted.items())
        return total // UNIT, gain, patterns

    def _best(self, gains: Mapping[int, int]) -> tuple[int, dict[int, int]]:
        """Return the value of a GPU that is cut into shares in the best way, and that way."""
        best, last = [0] * (WHOLE + 1), [0] * (WHOLE + 1)
        for size in range(1, WHOLE + 1):
            best[size] = best[size - 1]
            for share in self._shares:
                if share <= size and best[size - share] + gains[share] > best[size]:
                    best[size], last[size] = best[size - share] + gains[share], share
        chosen, size = Counter[int](), WHOLE
        while size > 0:
            chosen[last[size]] += bool(last[size])
            size -= last[size] or 1
        return best[WHOLE], {share: times for share, times in sorted(chosen.items()) if times}
