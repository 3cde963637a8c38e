"""The goals and limits of a plan: their values, and the check that they are compatible. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kubestow.commands.core.wrong_use import WrongUse

if TYPE_CHECKING:
    from kubestow.models.documents.policy import Policy
    from kubestow.models.documents.rebalance_plan import Limits

GOALS: Final = ("repair", "improve", "consolidate", "admit")
#: Exclusions of pods that can be lifted.
ALSO_MOVE: Final = ("bare", "local-storage")
MAX_COUNT: Final = 2**31 - 1
#: Points. Multiplied by all moves and 10,000 units a point it stays below 2**53, up to which CP-SAT is exact.
MAX_GAIN: Final = 10**6
_MAX_LIMITS: Final = {
    **dict.fromkeys(("maxMoves", "maxMovesPerNamespace", "maxMovesPerWorkload", "maxWaves", "maxFreed", "maxEvictions"), MAX_COUNT),
    "minGain": MAX_GAIN,
}


def check(goals: Sequence[str], drain: Sequence[str], limits: Limits, policy: Policy) -> None:
    """Check goals and limits, and remove repetitions of ``alsoMove`` from the limits.

    Raises:
        WrongUse: unknown values, and contradictions, in terms of command-line options.
    """
    found = [*_unknown(goals, limits), *_contradictions(goals, drain, limits)]
    if limits.maxFreed is not None and policy.priceLabel:
        found.append("--max-freed counts nodes, and the policy's priceLabel sums their prices")
    if found:
        raise WrongUse(*found, missing="" if goals or drain else "--goal")
    limits.alsoMove = list(dict.fromkeys(limits.alsoMove))


def _unknown(goals: Sequence[str], limits: Limits) -> Iterator[str]:
    """Yield values that the command line does not accept either."""
    for goal in goals:
        if goal not in GOALS:
            yield f"{goal!r} is not a goal (expected {', '.join(GOALS)})"
    for name in dict.fromkeys(limits.alsoMove):
        if name not in ALSO_MOVE:
            yield f"alsoMove: {name!r} is neither bare nor local-storage"
    for name, upper_limit in _MAX_LIMITS.items():
        value = getattr(limits, name)
        if not 0 <= (value or 0) <= upper_limit:
            yield f"{name}: {value} is not in the range 0 to {upper_limit}"


def _contradictions(goals: Sequence[str], drain: Sequence[str], limits: Limits) -> Iterator[str]:
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
