"""Units of a gang: pods that must bind together, because no order of single pods satisfies the rules.

A sequence of (class, node, pods) keeps the pods of a unit adjacent; :func:`bundle` recovers the units from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from kubestow.models.cluster.cluster import Cluster
from kubestow.solver import rules as all_rules
from kubestow.solver.rules.base import Rule

Step = tuple[int, int, int]
S = TypeVar("S")


class Binder:
    """Binds pods singly or as units, in the state of ``rules``, which is kept in step."""

    def __init__(self, cluster: Cluster, rules: Sequence[Rule]) -> None:
        self.cluster, self.rules = cluster, rules
        self._whole = [rule for rule in rules if rule.whole_units]
        self._others = [rule for rule in rules if not rule.whole_units]

    def put(self, g: int, n: int, k: int) -> None:
        """Add k pods of class g on node n (remove them if k < 0) without checking any rule."""
        for rule in self.rules:
            rule.place(g, n, k) if k > 0 else rule.remove(g, n, -k)

    def take_back(self, steps: Sequence[Step]) -> None:
        """Remove pods again, last first."""
        for g, n, k in reversed(steps):
            self.put(g, n, -k)

    def accepts(self, g: int, n: int) -> bool:
        """Return whether all rules accept one more pod of class g on node n."""
        return not any(rule.rejects(g)[n] for rule in self.rules)

    def bind(self, unit: Sequence[Step]) -> bool:
        """Bind the pods of a unit if they are accepted. Return False, with nothing changed, if not.

        Rules with ``whole_units`` are checked with all pods present, other rules pod by pod."""
        cells = Counter[tuple[int, int]]()
        for g, n, k in unit:
            cells[g, n] += k
        if not all(rule.admits_unit([(g, n, k) for (g, n), k in cells.items()]) for rule in self._whole):
            return False
        done: list[Step] = []
        fine = True
        for g, n in [(g, n) for g, n, k in unit for _ in range(k)]:
            if any(rule.rejects(g)[n] for rule in self._others):
                fine = False
                break
            self.put(g, n, 1)
            done.append((g, n, 1))
        if fine and all(rule.holds_after(g, n) for rule in self._whole for g, n in cells):
            return True
        self.take_back(done)
        return False

    def units(self, classes: Sequence[int], level: int) -> list[list[int]]:
        """Return the units of classes of one gang to try at a level.

        Args:
            level: 0 for none, 1 for cycles of classes that need each other, 2 for all classes in one unit.
        """
        if level == 0:
            return []
        return [unit for rule in self._whole for unit in rule.cycles(classes)] if level == 1 else [sorted(classes)]

    def united(self, classes: Iterable[int]) -> set[int | None]:
        """Return the gangs whose pods may have to bind together.

        Other gangs gain nothing from units, because all other rules check the pods of a unit one by one."""
        return {self.cluster.classes[g].gang for g in classes if any(rule.binds_together(g) for rule in self._whole)} - {None}

    def ordered(self, g: int) -> bool:
        """Return True if the order inside a unit matters for pods of class g."""
        return any(rule.one_by_one(g) for rule in self._others)

    def parts(self, unit: list[Step]) -> list[list[Step]]:
        """Return the parts of a unit that may bind first: the whole unit, then its pods in one domain of an affinity key, most
        pods first."""
        keys = {key for g, _, _ in unit if (a := self.cluster.classes[g].affinity) is not None for key in a.keys}
        smaller = []
        for key in sorted(keys):
            inside: dict[int, list[Step]] = {}
            for step in unit:
                inside.setdefault(int(self.cluster.domains(key)[0][step[1]]), []).append(step)
            smaller += [part for d, part in sorted(inside.items()) if d >= 0 and len(part) < len(unit)]
        return [unit, *sorted(smaller, key=len, reverse=True)]


def bundle(cluster: Cluster, sequence: Sequence[Step]) -> list[tuple[list[Step], bool]]:
    """Split a bind order into parts.

    Without gangs that have affinity or spread constraints, the whole order is one part.

    Returns:
        The steps of each part, and True if its pods bind as a unit, False if they bind singly.

    Raises:
        ValueError: Some pods of a gang are not accepted in this order, with any units.
    """
    binder = Binder(cluster, all_rules.having(cluster, lambda kind: kind.whole_units) if cluster.gangs else ())
    linked = binder.united(range(cluster.n_classes))
    gang_of = [c.gang if c.gang in linked else None for c in cluster.classes]
    if not linked:
        return [(list(sequence), False)]
    found: list[tuple[list[Step], bool]] = []
    for gang, run in gang_runs(sequence, [gang_of[g] for g, _, _ in sequence]):
        if gang is None:
            binder.put(*run[0])
            found.append((run, False))
        else:
            found += _read(binder, run)
    return found


def gang_runs(steps: Sequence[S], gangs: Sequence[int | None]) -> Iterator[tuple[int | None, list[S]]]:
    """Yield consecutive steps of one gang together with the gang, and every step without a gang (None) alone."""
    for gang, entries in groupby(zip(gangs, steps, strict=True), key=lambda entry: entry[0]):
        run = [step for _, step in entries]
        yield from [(None, [step]) for step in run] if gang is None else [(gang, run)]


def _read(binder: Binder, run: list[Step]) -> list[tuple[list[Step], bool]]:
    """Split consecutive steps of one gang into parts that bind, and bind them.

    Splits by class come first, then some first steps singly and the others together, then a depth-first search.

    Returns:
        The steps of each part, and True if they bind as a unit.

    Raises:
        ValueError: No split works.
    """
    classes = sorted({g for g, _, _ in run})
    for parts in _readings(binder, run, classes):
        done: list[Step] = []
        for part, together in parts:
            if not _bind(binder, part, together=together):
                break
            done += part
        else:
            return parts
        binder.take_back(done)
    ordered = part_by_depth(run, lambda part: _bind(binder, part, together=len(part) > 1), binder.take_back)
    if ordered is not None:
        return [(part, len(part) > 1) for part in ordered]
    gang = binder.cluster.classes[run[0][0]].gang
    raise ValueError("no order" if gang is None else f"no order for gang {binder.cluster.gangs[gang].name}")


def _readings(binder: Binder, run: list[Step], classes: Sequence[int]) -> Iterator[list[tuple[list[Step], bool]]]:
    """Yield the splits of :func:`_read` by class, then those with the first steps singly and the others together.

    They are built lazily, because thousands of steps have millions of splits.
    """
    for level in range(3):
        yield _by_class(run, binder.units(classes, level))
    for i in range(1, len(run)):
        yield [*(([step], False) for step in run[:i]), (run[i:], True)]


def _by_class(run: Sequence[Step], units: Sequence[Sequence[int]]) -> list[tuple[list[Step], bool]]:
    """Return the parts of a run: adjacent steps of classes in one unit together, every other step alone.

    Args:
        units: Lists of classes.

    Returns:
        The steps of each part, and True if their classes are in a unit.
    """
    unit_of = {g: i for i, unit in enumerate(units) for g in unit}
    parts: list[tuple[list[Step], bool]] = []
    for step in run:
        unit = unit_of.get(step[0])
        if parts and unit is not None and unit_of.get(parts[-1][0][-1][0]) == unit:
            parts[-1][0].append(step)
        else:
            parts.append(([step], unit is not None))
    return parts


def part_by_depth(run: list[S], bind: Callable[[list[S]], bool], undo: Callable[[list[S]], None]) -> list[list[S]] | None:
    """Split consecutive steps into parts that ``bind`` accepts, each as short as possible. All steps are bound afterwards.

    Return None, with nothing bound, if no split works. The search is depth-first. The state does not depend on how the
    bound steps were split, so no start of a part is tried twice.

    Args:
        bind: Binds a part. Returns False, with nothing changed, if its pods are not accepted.
        undo: Removes bound steps.
    """
    parts: list[list[S]] = []
    start, length = 0, 1
    dead: set[int] = set()
    while start < len(run):
        if start in dead or start + length > len(run):
            dead.add(start)
            if not parts:
                return None
            part = parts.pop()
            undo(part)
            start, length = start - len(part), len(part) + 1
        elif bind(run[start : start + length]):
            parts.append(run[start : start + length])
            start, length = start + length, 1
        else:
            length += 1
    return parts


def _bind(binder: Binder, part: Sequence[Step], *, together: bool) -> bool:
    if together:
        return binder.bind(part)
    done: list[Step] = []
    for g, n, k in part:
        for _ in range(k):
            if not binder.accepts(g, n):
                binder.take_back(done)
                return False
            binder.put(g, n, 1)
            done.append((g, n, 1))
    return True
