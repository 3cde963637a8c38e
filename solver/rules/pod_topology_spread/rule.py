"""PodTopologySpread: DoNotSchedule constraints.

Source: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go. The filter checks the moment of
binding. In addition, the final state of a placement satisfies each constraint in every domain that received
one of its pods.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kubestow.models.cluster.cluster import Cluster, Ids, Ints, Spread, domain_sum, single
from kubestow.models.kube.selectors import Bools
from kubestow.solver.cpsat.model import PlacementModel
from kubestow.solver.ortools import cp_model
from kubestow.solver.rules.base import UNLIMITED_PODS, Rule, on_nodes
from kubestow.solver.rules.batch_limits import BatchLimits, Level
from kubestow.solver.rules.facts import Refusal
from kubestow.solver.rules.pod_topology_spread.remedies import SpreadRemedies
from kubestow.solver.rules.pod_topology_spread.words import SpreadWords


@dataclass
class SpreadTally:
    """Matching pods per domain, for one (selector, key, eligible nodes).

    Attributes:
        codes: int32[N], the domain of each node.
        size: Number of domains.
        eligible: bool[N], nodes whose pods count.
        counted: bool[D], domains with an eligible node.
        counts: int64[D], matching pods.
        matches: bool[G], pending classes that the selector matches.
        owners: int64[D], placed pods that carry a constraint over this tally.
        matcher: Index of the selector.
    """

    codes: Ids
    size: int
    eligible: Bools
    counted: Bools
    counts: Ints
    matches: Bools
    owners: Ints
    matcher: int

    @cached_property
    def single(self) -> bool:
        """True if every domain is one node."""
        return single(self.codes, self.size)

    def floor(self, min_domains: int) -> int:
        """Return the global minimum, which is 0 while fewer domains than minDomains are eligible."""
        inside = self.counts[self.counted]
        return 0 if len(inside) < min_domains or not len(inside) else int(inside.min())


def _topic(spread: Spread) -> Spread:
    """Return one topic for all owners of the constraint, whether or not they match its selector."""
    return replace(spread, itself=False)


class PodTopologySpread(SpreadWords, SpreadRemedies):
    """count(domain) + itself - min ≤ maxSkew for each DoNotSchedule constraint. Nodes must have every key."""

    name = "PodTopologySpread"
    whole_units = tracks_moves = settled = survives_merging = True
    local = any_order = first_come = supplied = for_good = False
    reads = ("spread",)
    reaches = Rule.reaches

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._tallies: list[SpreadTally] = []
        ids: dict[tuple[int, str, int], int] = {}
        self._of: list[list[tuple[Spread, int | None]]] = []
        for cls in cluster.classes:
            self._of.append([(s, None if s.matcher is None else self._tally(ids, s.matcher, s.key, s.eligible)) for s in cls.spread])
        self._feeds: list[list[int]] = [[] for _ in cluster.classes]
        for i, tally in enumerate(self._tallies):
            for g in np.flatnonzero(tally.matches):
                self._feeds[g].append(i)
        self._counting = [np.flatnonzero(tally.matches).tolist() for tally in self._tallies]
        self._guards: list[list[Spread]] = [[] for _ in self._tallies]
        for own in self._of:
            for spread, index in own:
                if index is not None and all(
                    s.max_skew != spread.max_skew or s.min_domains != spread.min_domains for s in self._guards[index]
                ):
                    self._guards[index].append(spread)

    def _tally(self, ids: dict[tuple[int, str, int], int], matcher: int, key: str, eligible: int) -> int:
        number = ids.get((matcher, key, eligible))
        if number is None:
            number = ids[matcher, key, eligible] = len(self._tallies)
            cluster = self.cluster
            codes, size = cluster.domains(key)
            mask = cluster.node_sets[eligible]
            per_node = np.where(mask, cluster.fixed_count(matcher, settled=True), 0)
            counted = np.zeros(size, dtype=bool)
            counted[codes[mask]] = True
            self._tallies.append(
                SpreadTally(
                    codes,
                    size,
                    mask,
                    counted,
                    domain_sum(codes, size, per_node),
                    cluster.matches(matcher),
                    np.zeros(size, dtype=np.int64),
                    matcher,
                )
            )
        return number

    # --- incremental face ---------------------------------------------------------------------------------------------

    def alike(self, g: int) -> Hashable:
        return tuple(s.key for s in self.cluster.classes[g].spread)

    def never(self, g: int) -> Bools:
        return ~self.cluster.nodes.with_keys(s.key for s in self.cluster.classes[g].spread)

    def bars(self, g: int) -> list[tuple[Hashable, Bools]]:
        return [(_topic(s), self.cluster.domains(s.key)[0] < 0) for s in self.cluster.classes[g].spread]

    def rejects(self, g: int) -> Bools:
        mask = self.never(g)
        for spread, index in self._of[g]:
            if index is None:
                continue
            tally = self._tallies[index]
            full = tally.counts + int(spread.itself) - tally.floor(spread.min_domains) > spread.max_skew
            mask |= on_nodes(full, tally.codes)
        return mask

    def refusals(self, g: int) -> list[Refusal]:
        """Return the reason of the first constraint that rejects each node (filtering.go, Filter)."""
        text = "node(s) didn't match pod topology spread constraints"
        lacking, skewed = np.zeros(self.cluster.n_nodes, dtype=bool), np.zeros(self.cluster.n_nodes, dtype=bool)
        for spread, index in self._of[g]:
            codes, _ = self.cluster.domains(spread.key)
            lacking |= (codes < 0) & ~skewed
            if index is not None:
                tally = self._tallies[index]
                full = tally.counts + int(spread.itself) - tally.floor(spread.min_domains) > spread.max_skew
                skewed |= on_nodes(full, tally.codes) & ~lacking
        found = (
            Refusal(f"{text} (missing required label)", lacking, lacking),
            Refusal(text, skewed, np.zeros_like(skewed)),
        )
        return [refusal for refusal in found if refusal.nodes.any()]

    def breaks(self, g: int) -> Bools:
        """Return bool[N], the nodes where one more pod of class g is accepted, but breaks a constraint in the final state.

        It would leave a domain that received pods of some constraint above its maxSkew.
        """
        mask = np.zeros(self.cluster.n_nodes, dtype=bool)
        for i in self._feeds[g]:
            tally = self._tallies[i]
            for spread in self._guards[i]:
                over = (tally.counts + 1 - tally.floor(spread.min_domains) > spread.max_skew) & (tally.owners > 0)
                mask |= on_nodes(over, tally.codes) & tally.eligible
        return mask

    def closed(self, g: int) -> Bools:
        return self.never(g)

    def obeyed(self, g: int) -> Bools:
        """Return bool[N], the nodes on which one more pod of class g keeps every domain with pods of a constraint within its maxSkew.

        The order of binding does not matter. Local search uses this, because it also removes pods.
        """
        mask = ~self.never(g)
        own = {index for _, index in self._of[g] if index is not None}
        for i in sorted({*self._feeds[g], *own}):
            tally = self._tallies[i]
            feeds = i in self._feeds[g]
            owned = tally.owners > 0
            top = int(tally.counts[owned].max(initial=0))
            for guard in self._guards[i]:
                floor = tally.floor(guard.min_domains)
                raised = np.full(tally.size, floor, dtype=np.int64)
                inside = tally.counted & (tally.counts == floor)
                if feeds and np.count_nonzero(tally.counted) >= guard.min_domains and np.count_nonzero(inside) == 1:
                    raised[inside] = floor + 1
                for eligible, plus, low in ((True, int(feeds), raised), (False, 0, np.full(tally.size, floor, dtype=np.int64))):
                    fine = top <= low + guard.max_skew
                    fine &= ~(owned | (i in own)) | (tally.counts + plus <= low + guard.max_skew)
                    here = tally.eligible == eligible
                    mask &= ~here | np.append(fine, True)[tally.codes]
        return mask

    def kept(self, g: int) -> bool:
        """Return True if every domain with pods of a constraint is within its maxSkew, for all constraints that class g has or feeds."""
        for i in {*self._feeds[g], *(index for _, index in self._of[g] if index is not None)}:
            tally = self._tallies[i]
            top = int(tally.counts[tally.owners > 0].max(initial=0))
            if any(top > tally.floor(guard.min_domains) + guard.max_skew for guard in self._guards[i]):
                return False
        return True

    def room(self, g: int) -> Ints:
        if not self._of[g] and not self._feeds[g]:
            return np.full(self.cluster.n_nodes, UNLIMITED_PODS)
        return np.where(self.rejects(g), 0, UNLIMITED_PODS)

    def place(self, g: int, n: int, k: int = 1) -> None:
        for i in self._feeds[g]:
            tally = self._tallies[i]
            if tally.eligible[n] and tally.codes[n] >= 0:
                tally.counts[tally.codes[n]] += k
        for _, index in self._of[g]:
            if index is not None:
                tally = self._tallies[index]
                if tally.codes[n] >= 0:  # a running pod may be on a node without the key
                    tally.owners[tally.codes[n]] += k

    def level(self, g: int) -> Ints | None:
        """Return int64[N], the fill level of the class's fullest constrained domain on each node. Ordering fills
        emptier domains first."""
        if not self.touches(g):
            return None
        level = np.zeros(self.cluster.n_nodes, dtype=np.int64)
        for _, index in self._of[g]:
            if index is not None:
                tally = self._tallies[index]
                level = np.maximum(level, on_nodes(tally.counts, tally.codes))
        return level

    def message(self, g: int, rejected: Bools) -> str:
        missing = int(np.count_nonzero(rejected & self.never(g)))
        keys = ", ".join(dict.fromkeys(s.key for s in self.cluster.classes[g].spread))
        skewed = int(np.count_nonzero(rejected)) - missing
        parts = [f"maxSkew over {keys} on {skewed}"] if skewed else []
        parts += [f"no topology label on {missing}"] if missing else []
        return ", ".join(parts) or "maxSkew of a placed pod's constraint"

    def levels(self, g: int) -> list[Level]:
        """Return the constraints whose verdict on the class changes as its pods arrive, its own and those of others."""
        own = {(index, s.max_skew, s.min_domains) for s, index in self._of[g]}
        levels = []
        for i in self._feeds[g]:
            tally = self._tallies[i]
            for guard in self._guards[i]:
                mine = (i, guard.max_skew, guard.min_domains) in own
                if mine or tally.owners.any():
                    pinned = int(np.count_nonzero(tally.counted)) < guard.min_domains
                    levels.append(
                        Level(tally.codes, tally.counts, tally.counted, guard.max_skew, pinned, tally.single, mine, tally.eligible)
                    )
        return levels

    def batch(self, g: int) -> BatchLimits:
        return BatchLimits(levels=self.levels(g))

    def repairable(self, g: int) -> bool:
        return True  # ``settled``

    def binds_together(self, g: int) -> bool:
        return bool(self.cluster.classes[g].spread)

    def holds_after(self, g: int, n: int) -> bool:
        if self.never(g)[n]:
            return False
        for spread, index in self._of[g]:
            if index is not None:
                tally = self._tallies[index]
                count = int(tally.counts[tally.codes[n]]) + int(spread.itself and not tally.eligible[n])
                if count - tally.floor(spread.min_domains) > spread.max_skew:
                    return False
        return True

    # --- pods at rest, for plans --------------------------------------------------------------------------------------------

    @property
    def tallies(self) -> list[SpreadTally]:
        """The matching pods per domain of each distinct (selector, key, eligible nodes), in the current state."""
        return self._tallies

    def feeds(self, g: int) -> list[int]:
        """Return the indices of the ``tallies`` that count pods of the class."""
        return self._feeds[g]

    def own(self, g: int) -> list[tuple[Spread, int | None]]:
        """Return the class's constraints, each with its index in ``tallies`` (None if it counts no pod)."""
        return self._of[g]

    # --- ordering -------------------------------------------------------------------------------------------------------

    def touches(self, g: int) -> bool:
        """Return True if placing pods of the class changes this rule's verdict on other nodes."""
        return bool(self._feeds[g]) or any(index is not None for _, index in self._of[g])

    def concerned(self, g: int) -> bool:
        return self.touches(g)

    def order_links(self) -> list[list[int]]:
        """Return groups of classes among which the order matters: a tally's owners with the classes it counts."""
        links: list[set[int]] = [set(counting) for counting in self._counting]
        for g, own in enumerate(self._of):
            for _, index in own:
                if index is not None:
                    links[index].add(g)
        return [sorted(link) for link in links]

    # --- encoding face ----------------------------------------------------------------------------------------------------

    def encode(self, encoding: PlacementModel) -> None:
        done: dict[tuple[int, int, int], list[int]] = {}
        for g, own in enumerate(self._of):
            for spread, index in own:
                if index is not None:
                    done.setdefault((index, spread.max_skew, spread.min_domains), []).append(g)
        if encoding.partial:  # pods that stay hold their constraints too
            free = [bool(len(encoding.nodes_of(g))) for g in range(self.cluster.n_classes)]
            done = {key: owners for key, owners in done.items() if any(free[g] for g in (*owners, *self._counting[key[0]]))}
        for (index, max_skew, min_domains), owners in done.items():
            topic = next(s for s, i in self._of[owners[0]] if (i, s.max_skew, s.min_domains) == (index, max_skew, min_domains))
            with encoding.about(_topic(topic), owners):
                self._encode(encoding, self._tallies[index], owners, max_skew, min_domains)

    def _encode(self, encoding: PlacementModel, tally: SpreadTally, owners: list[int], max_skew: int, min_domains: int) -> None:
        """Require count ≤ min + maxSkew in each domain that receives a pod of the owners, where min ≤ every eligible domain's count."""
        model = encoding.model
        counting = np.flatnonzero(tally.matches).tolist()
        others = [h for h in counting if h not in owners]
        order = np.argsort(tally.codes, kind="stable")
        edges = np.searchsorted(tally.codes[order], np.arange(tally.size + 1))
        members = [order[edges[d] : edges[d + 1]] for d in range(tally.size)]
        arriving = [
            [v for h in counting for v in encoding.variables(h, nodes[tally.eligible[nodes]])] if tally.counted[d] else []
            for d, nodes in enumerate(members)
        ]
        pinned = int(np.count_nonzero(tally.counted)) < min_domains
        still = [int(tally.counts[d]) for d in range(tally.size) if tally.counted[d] and not arriving[d]]
        floor: cp_model.IntVar | int = 0
        if not pinned:
            lowest = int(tally.counts[tally.counted].min())
            highest = min([*still, lowest + sum(int(self.cluster.count[h]) for h in counting)])
            variable = model.new_int_var(lowest, max(lowest, highest), "")
            for d in range(tally.size):
                if tally.counted[d] and arriving[d]:
                    model.add(variable <= int(tally.counts[d]) + encoding.sum(arriving[d]))
            floor = variable
        for d, nodes in enumerate(members):
            base = int(tally.counts[d])
            incoming = [v for g in owners for v in encoding.variables(g, nodes)]
            count = base + encoding.sum(arriving[d])
            if encoding.partial and tally.owners[d] > 0 and tally.counted[d]:
                model.add(count <= floor + max_skew)
                continue
            if not incoming:
                continue
            if not others and base <= max_skew:
                model.add(count <= floor + max_skew)  # holds anyway if nothing arrives
            else:
                present = encoding.any_of(incoming)
                assert present is not None
                model.add(count <= floor + max_skew).only_enforce_if(present)
