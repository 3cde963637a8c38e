"""The panel of a document about capacity next to its map: figures, tables, and failures as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kubestow.models.catalogue import money
from kubestow.models.documents.capacity import Capacity
from kubestow.models.documents.fit import Fit
from kubestow.models.documents.sizing import Moment, Sizing
from kubestow.models.documents.survival import Survival
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.documents.output import counted
from kubestow.report.page import words
from kubestow.report.page.capacity.heat import heat
from kubestow.report.page.owners import short
from kubestow.report.page.unplaced import cause_data

_MAX_ENTRIES: Final = 1_000
Panel = dict[str, Any]


def panel(snapshot: Snapshot, document: Capacity) -> Panel:
    """Return ``capacity`` of the page: ``kind``, ``title``, ``status`` (text and tone), ``facts`` and fields
    specific to the kind.

    ``snapshot`` is that of the map.
    """
    if isinstance(document, Fit):
        return _fit(document)
    if isinstance(document, Sizing):
        return _sizing(snapshot, document)
    return _survival(snapshot, document) if isinstance(document, Survival) else _upgrade(document)


def _gap(value: int, bound: int) -> str:
    return "proved" if value == bound else f"at most {bound:,}"


def _fit(fit: Fit) -> Panel:
    templates = [[short(t.workload), t.fits, t.bound, t.ratio, t.runs] for t in fit.templates]
    facts = [["Units that fit", f"{fit.units:,}", _gap(fit.units, fit.bound)]]
    if fit.keep is not None:
        facts.append(["Kept free", f"{fit.keep.percent}%", f"of every {fit.keep.of}"])
    best = max(fit.growth, key=lambda grown: grown.units, default=None)
    if best is not None:
        facts.append(["One more node", f"+{best.units:,}", f"like {best.like}"])
    return {
        "kind": "Fit",
        "title": f"{counted(fit.units, 'unit')} more of {', '.join(short(t.workload) for t in fit.templates)}",
        "status": ["proved", "good"] if fit.units == fit.bound else ["not proved", "plain"],
        "facts": facts,
        "templates": templates,
        "cause": cause_data(fit.cause) if fit.cause is not None else None,
        "growth": [[g.like, g.nodes, g.units, g.bound] for g in fit.growth[:_MAX_ENTRIES]],
    }


# --- sizing -----------------------------------------------------------------------------------------------------------------


def _money(amount: float) -> str:
    return money.text(money.parse(amount))


def _sizing(snapshot: Snapshot, sizing: Sizing) -> Panel:
    cost = sizing.cost
    proved = cost.value == cost.bound
    facts = [
        ["Cost per hour", _money(cost.value), "proved" if proved else f"at least {_money(cost.bound)}"],
        ["Nodes to buy", f"{sizing.nodes.value:,}", f"of {counted(len({p.shape for p in sizing.buy}), 'shape')}"],
    ]
    if sizing.removed:
        priced = sizing.replaced
        note = f"cost {_money(priced.cost)} per hour" if priced is not None and priced.priced == priced.nodes else ""
        facts.append(["Nodes removed", f"{len(sizing.removed):,}", note])
    names = {node.metadata.name: n for n, node in enumerate(snapshot.nodes)}
    tones = {"optimal": "good", "feasible": "plain", "infeasible": "bad", "unknown": "warn"}
    found: Panel = {
        "kind": "Sizing",
        "title": f"{counted(sizing.nodes.value, 'node')} for {_money(cost.value)} per hour" if sizing.placement else "No purchase",
        "status": [sizing.status, tones[sizing.status]],
        "facts": facts,
        "buy": [
            [p.shape, p.zone, p.count, _money(p.price), money.text(money.parse(p.price) * p.count), [names.get(n, -1) for n in p.nodes]]
            for p in sizing.buy[:_MAX_ENTRIES]
        ],
        "utilisation": [
            [u.shape or "all", u.resource, *(_amount(u.resource, n) for n in (u.requested, u.daemons, u.allocatable)), _share(u)]
            for u in sizing.utilisation[:_MAX_ENTRIES]
        ],
        "workloads": [
            [short(w.workload) if w.workload else "nodes without pods", w.pods, _money(w.cost), w.daemon]
            for w in sizing.workloads[:_MAX_ENTRIES]
        ],
        "misfits": [
            [m.pods[0] if m.pods else "", len(m.pods), [[r.shape, r.rule, r.message] for r in m.reasons]]
            for m in sizing.misfits[:_MAX_ENTRIES]
        ],
        "causes": [{"pods": c.pods[:20], "cause": cause_data(c)} for c in sizing.causes[:20]],
        "heat": None,
    }
    if sizing.series is not None:
        found["series"] = [_moment(moment) for moment in sizing.series[:_MAX_ENTRIES]]
        deciding = [moment.snapshot.capturedAt for moment in sizing.series if moment.decides]
        found["facts"].append(["Snapshots", f"{len(sizing.series):,}", f"{len(deciding):,} decide" if deciding else ""])
    if sizing.survival is not None:
        found["heat"] = heat(snapshot, sizing.survival)
        found["facts"] += _survival_facts(sizing.survival)
    return found


def _moment(moment: Moment) -> list[Any]:
    """Return a row: time, pods, own minimum cost, utilisation of the purchased nodes, and True if it decides."""
    use = {row.resource: f"{_share(row)} %" for row in moment.utilisation if not row.shape}
    alone = "none" if moment.alone is None else _money(moment.alone.value)
    return [moment.snapshot.capturedAt, moment.snapshot.pending, alone, use.get("cpu", ""), use.get("memory", ""), moment.decides]


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return words.offer(resource, amount)
    return words.offer("memory", amount) if resource in ("memory", "ephemeral-storage") or "hugepages-" in resource else f"{amount:,}"


def _share(use: Any) -> int:
    """Return the utilisation in per cent, rounded down."""
    return use.requested * 100 // use.allocatable if use.allocatable > 0 else 0


# --- survival ---------------------------------------------------------------------------------------------------------------


def _survival_facts(survival: Survival) -> list[list[str]]:
    said = survival.scenarios
    lived = sum(1 + len(o.alike) for o in survival.outcomes if o.outcome == "survives")
    facts = [
        ["Failures survived", f"{lived:,} of {said.all:,}", _fails(survival)],
        ["Examined", f"{said.distinct - said.open:,}", f"{said.solved:,} by search, {said.bounded:,} by bounds"],
    ]
    worst = max((o.pending for o in survival.outcomes), default=0)
    return facts + ([["Pending at worst", f"{worst:,}", "or more pods"]] if worst else [])


def _fails(survival: Survival) -> str:
    unit = {"node": "node", "zone": "zone"}.get(survival.fail, f"value of {survival.fail}")
    return f"of any {unit}" if survival.atOnce == 1 else f"of any {survival.atOnce} {unit}s at once"


def _survival(snapshot: Snapshot, survival: Survival) -> Panel:
    found: Panel = {
        "kind": "Survival",
        "title": f"Survival of the failure {_fails(survival)}",
        "status": ["certified", "good"] if survival.certified else ["not certified", "bad"],
        "facts": _survival_facts(survival),
        "heat": heat(snapshot, survival),
        "exposed": [[e.kind, e.object, e.failures, " and ".join(e.worst), e.message] for e in survival.exposed[:_MAX_ENTRIES]],
        "remedy": None,
    }
    remedy = survival.remedy
    if remedy is not None:
        what = [*(f"{n} more nodes like {like}" for n, _, like in (text.partition(":") for text in remedy.addNodes)), *remedy.buy]
        cost = f"{_money(remedy.cost)} per hour" if remedy.cost is not None else ""
        found["remedy"] = {"what": what, "cost": cost, "certified": remedy.certified, "options": list(remedy.options)}
    return found


# --- upgrade ----------------------------------------------------------------------------------------------------------------


def _upgrade(upgrade: Upgrade) -> Panel:
    drained = sum(len(wave.drain) for wave in upgrade.waves)
    facts = [
        ["Nodes upgraded", f"{drained:,} of {len(upgrade.nodes):,}", f"pool {upgrade.pool}"],
        ["Waves", f"{len(upgrade.waves):,}", f"at most {upgrade.maxUnavailable} unavailable, {upgrade.surge} surge"],
        ["Moves", f"{sum(len(wave.moves) for wave in upgrade.waves):,}", ""],
    ]
    if upgrade.smallestSurge is not None:
        sure = "no smaller one is enough" if upgrade.smallestProved else "a smaller one may be enough"
        facts.append(["Sufficient surge", f"{upgrade.smallestSurge:,}", sure])
    done = upgrade.complete
    return {
        "kind": "Upgrade",
        "title": f"Upgrade of {counted(len(upgrade.nodes), 'node')}: {counted(len(upgrade.waves), 'wave')}",
        "status": ["complete", "good"] if done else ["blocked, proved" if upgrade.proved else "not complete", "bad"],
        "facts": facts,
        "waves": [
            [w.wave, w.domain or "", list(w.drain), _new(w.surge), _new(w.joined), len(w.moves)] for w in upgrade.waves
        ],
        "blocked": [[b.node, b.kind, b.object, b.message, b.proved] for b in upgrade.blocked[:_MAX_ENTRIES]],
    }  # fmt: skip


def _new(nodes: Sequence[Any]) -> list[str]:
    return [node.name for node in nodes]
