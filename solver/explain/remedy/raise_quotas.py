"""Remedies that raise ResourceQuotas, several together, by the missing amount for the pods of a question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from kubestow.models.cluster.admission import Admission, amount
from kubestow.models.cluster.rollout_admission import Limits, arguments, sentence, with_quotas
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube.objects import pod_key
from kubestow.solver.explain.conflict.placement_question import PlacementQuestion

CHANGE: Final = "raiseQuota"
#: Argument of a raise that may exceed the need. Names of quotas contain a ``/`` here.
_LEAST: Final = "least"


def candidates(question: PlacementQuestion) -> Iterator[Remedy]:
    """Yield raises of quotas that admit the needed pods, in the order of their creation.

    The first raise assumes that quotas still refuse all other pods that they refuse now. It is the smallest.
    If these pods could take the additional quota, the second raise includes them, which may exceed the need.
    """
    known: list[Limits] = []
    for others in (False, True):
        limits = _missing(question, others=others)
        if limits and limits not in known:
            known.append(limits)
            more = {_LEAST: "unproved"} if others else {}
            yield Remedy(CHANGE, sentence(question.snapshot, limits), arguments(limits) | more)


def with_raises(question: PlacementQuestion, changed: Mapping[str, str]) -> PlacementQuestion:
    """Return the question with the quotas of the remedy's arguments."""
    limits = {key: dict(part.split("=", 1) for part in text.split(",")) for key, text in changed.items() if key != _LEAST}
    return replace(question, snapshot=with_quotas(question.snapshot, limits))


def _missing(question: PlacementQuestion, *, others: bool) -> Limits:
    """Return the new limits of insufficient quotas; none if no quota is short, or another rule refuses the pods.

    Args:
        others: True if other pods that quotas refuse are created, too.
    """
    snapshot, own = question.snapshot, frozenset(question.pods)
    places = {pod_key(pod): i for i, pod in enumerate(snapshot.pods)}
    new = [places[key] for key in snapshot.to_create if key in places]
    admission = Admission(snapshot, frozenset(new), policy=question.policy, exempt=question.exempt)
    raised, missing_pods = Limits(), question.needed
    for i in new:
        pod = snapshot.pods[i]
        if admission.always(pod) is not None or (i not in own and not others and admission.refusal(pod) is not None):
            continue
        for ledger in admission.concerned(pod):
            for resource, requested in ledger.charge(pod).items():
                short = ledger.used.get(resource, Fraction(0)) + requested
                if requested and short > ledger.hard.get(resource, short):
                    ledger.hard[resource] = short
                    raised.setdefault(ledger.name, {})[resource] = amount(resource, short)
        admission.admit(pod)
        missing_pods -= i in own
        if missing_pods <= 0:
            return raised
    return {}
