"""Failures as a heat map: each node or domain that can fail, and the effect."""

from __future__ import annotations

from typing import Any, Final

from kubestow.models.documents.survival import Scenario, Survival
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.report.page.unplaced import cause_data

#: Outcomes by severity, as numbered on the page: not examined, no pods affected, survives, unknown, pending.
ABSENT, NOTHING, SURVIVES, UNKNOWN, PENDING = range(5)
_ZONE: Final = "topology.kubernetes.io/zone"
#: Maximum numbers of listed failures, counterexamples, domains in a matrix of pairs, and pods per counterexample.
_MAX_FAILURES: Final = 500
_MAX_COUNTEREXAMPLES: Final = 200
_MAX_MATRIX_DOMAINS: Final = 60
_MAX_PODS: Final = 50


def outcome(scenario: Scenario) -> int:
    if scenario.outcome == "survives":
        return SURVIVES if scenario.displaced else NOTHING
    return PENDING if scenario.outcome == "pending" else UNKNOWN


def heat(snapshot: Snapshot, survival: Survival) -> dict[str, Any]:
    """Return the cells, pairs if they can be drawn, unsurvived failures, and counterexamples.

    A cell ``[name, group, outcome, pending, displaced, by, failures]`` has the worst of all failures that include
    the node or domain.
    """
    groups = _domains(snapshot, survival.fail)
    names = list(groups)
    index = {name: i for i, name in enumerate(names)}
    cells: list[list[Any]] = [[name, groups[name], ABSENT, 0, 0, "", 0] for name in names]
    pairs: list[list[int]] = []
    bad: list[tuple[int, int, list[int], Scenario]] = []
    drawn = survival.atOnce == 2 and len(names) <= _MAX_MATRIX_DOMAINS
    for scenario in survival.outcomes:
        code = outcome(scenario)
        for failed in (scenario.failed, *scenario.alike):
            members = [index[name] for name in failed if name in index]
            for i in members:
                cell = cells[i]
                cell[6] += 1
                if (code, scenario.pending, scenario.displaced) >= (cell[2], cell[3], cell[4]):
                    cell[2:6] = [code, scenario.pending, scenario.displaced, scenario.by]
            if drawn and len(members) == 2:
                pairs.append([*sorted(members), code, scenario.pending])
            if code >= UNKNOWN:
                bad.append((code, scenario.pending, members, scenario))
    bad.sort(key=lambda each: (-each[0], -each[1], each[2]))
    return {
        "fail": survival.fail,
        "atOnce": survival.atOnce,
        "cells": cells,
        "pairs": pairs if drawn else None,
        "failures": [[members, code, pending, each.displaced, each.by] for code, pending, members, each in bad[:_MAX_FAILURES]],
        "more": max(0, len(bad) - _MAX_FAILURES),
        "counterexamples": [
            {
                "failed": [index[name] for name in each.failed if name in index],
                "pods": each.pending[:_MAX_PODS],
                "count": len(each.pending),
                "least": each.least,
                "cause": cause_data(each.cause) if each.cause is not None else None,
                "consequences": [[c.kind, c.object, c.message] for c in each.consequences],
            }
            for each in survival.counterexamples[:_MAX_COUNTEREXAMPLES]
        ],
    }


def _domains(snapshot: Snapshot, fail: str) -> dict[str, str]:
    """Return the nodes or domains that can fail, each with its group in the map: nodes by zone, domains in one group."""
    found: dict[str, str] = {}
    for node in snapshot.nodes:
        labels = node.metadata.labels or {}
        if fail == "node":
            found[node.metadata.name or ""] = labels.get(_ZONE, "")
        elif (value := labels.get(_ZONE if fail == "zone" else fail)) is not None:
            found[value] = ""
    return dict(sorted(found.items(), key=lambda each: each[1]))
