"""Quotas that could be raised, so that the API server creates the pods of a question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

import msgspec

from models.cluster.admission import Admission
from models.documents.placement import Remedy
from models.kube import namespace_limits, objects, quantity
from models.snapshot.snapshot import Snapshot
from solver.explain.conflict.placement_question import PlacementQuestion
from solver.explain.remedy.pod_edits import Arguments

RULE: Final = "ResourceQuota"
_BYTES: Final = ("memory", "ephemeral-storage")
_UNITS: Final = ((60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))
#: By quota (``namespace/name``) and resource.
_Hard = dict[str, dict[str, Fraction]]


def raised(question: PlacementQuestion) -> Iterator[list[Remedy]]:
    """Yield the quotas to raise, together and as little as helps: first as if all other pods that are refused stay so, which is the least
    that any raise can be, then as if they are created, too."""
    found: list[_Hard] = []
    for others in (False, True):
        hard = _needed(question, others=others)
        if hard and hard not in found:
            found.append(hard)
            yield [_remedy(question.snapshot, name, amounts, sure=not others) for name, amounts in sorted(hard.items())]


def with_quota(snapshot: Snapshot, arguments: Arguments) -> Snapshot:
    """Return the snapshot with a quota raised."""
    name = arguments["quota"]
    quota = snapshot.resource_quotas[name]
    spec = quota.spec or namespace_limits.ResourceQuotaSpec()
    hard = {**(spec.hard or {}), **msgspec.json.decode(arguments["hard"], type=dict[str, str])}
    changed = msgspec.structs.replace(quota, spec=msgspec.structs.replace(spec, hard=hard))
    return replace(snapshot, resource_quotas={**snapshot.resource_quotas, name: changed})


def _needed(question: PlacementQuestion, *, others: bool) -> _Hard:
    """Return what quotas have to allow, where they allow less, for the first pods of the question, as many as are needed.

    Args:
        others: Other pods that quotas refuse are created, too.
    """
    snapshot, own = question.snapshot, {objects.pod_key(question.snapshot.pods[i]) for i in question.pods}
    index = {objects.pod_key(pod): i for i, pod in enumerate(snapshot.pods)}
    new = [index[key] for key in snapshot.to_create if key in index]
    admission = Admission(snapshot, frozenset(new), policy=question.policy, exempt=question.exempt)
    left, found = question.needed, _Hard()
    for i in new:
        pod = snapshot.pods[i]
        mine = objects.pod_key(pod) in own
        refusal = admission.refusal(pod)
        if refusal is not None and (refusal[0] != RULE or not (mine or others)):
            continue
        for name, amounts in admission.lacking(pod).items():
            kept = found.setdefault(name, {})
            kept |= {resource: max(amount, kept.get(resource, amount)) for resource, amount in amounts.items()}
        admission.admit(pod)
        left -= mine
        if left <= 0:
            return found
    return {}


def _remedy(snapshot: Snapshot, name: str, amounts: dict[str, Fraction], *, sure: bool) -> Remedy:
    quota = snapshot.resource_quotas[name]
    before = (quota.spec.hard if quota.spec is not None else None) or {}
    to = {resource: _written(resource, amount) for resource, amount in sorted(amounts.items())}
    words = " and ".join(f"{resource} from {before.get(resource)} to {amount}" for resource, amount in to.items())
    arguments = {"quota": name, "hard": msgspec.json.encode(to).decode()} | ({} if sure else {"least": "unproved"})
    return Remedy("raiseQuota", f"raise {words} in quota {name}", arguments)


def _written(resource: str, value: Fraction) -> str:
    """Return a quantity as a manifest has it, exact up to a mCPU or a byte."""
    plain = resource.rpartition(".")[2]
    if plain == "cpu":
        return quantity.format_cpu(quantity.ceil(value * 1000))
    whole = quantity.ceil(value)
    if plain in _BYTES:
        return next((f"{whole >> shift}{suffix}" for shift, suffix in _UNITS if whole and not whole % (1 << shift)), str(whole))
    return str(whole)
