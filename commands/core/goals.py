"""Checks that the goals and limits of a plan are compatible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubestow.models.documents.policy import Policy
from kubestow.models.documents.rebalance_plan import Limits


def misuses(goals: Sequence[str], drain: Sequence[str], limits: Limits) -> Iterator[str]:
    """Yield the contradictions between goals and limits, in terms of command-line options."""
    if not goals and not drain:
        yield "nothing to plan for: give a --goal, or nodes to --drain"
    if len(set(goals)) < len(goals):
        yield "a --goal is given more than once"
    if limits.maxFreed is not None and "consolidate" not in goals:
        yield "--max-freed needs --goal consolidate"
    if not limits.allowEviction:
        if limits.maxEvictions is not None:
            yield "--max-evictions needs --allow-eviction"
        return
    if "admit" in goals[1:]:
        yield "with --allow-eviction, admit has to be the first goal"
    before = goals[: goals.index("repair")] if "repair" in goals else ()
    if {"consolidate", "improve"} & set(before):
        yield "with --allow-eviction, repair comes before consolidate and improve: no pod is evicted for these"


def priced(limits: Limits, policy: Policy) -> str | None:
    """Return the contradiction between the limits and the policy; None if there is none."""
    return (
        "--max-freed counts nodes, and the policy's priceLabel sums their prices"
        if limits.maxFreed is not None and policy.priceLabel
        else None
    )
