"""ResourceQuotas raised by what is missing for the pods of a question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from models.cluster.admission import QUOTA, Admission, amount
from models.cluster.rollout_admission import Limits, arguments, sentence, with_quotas
from models.documents.placement import Remedy
from models.kube.objects import pod_key
from solver.explain.conflict.placement_question import PlacementQuestion

RULE: Final = QUOTA
CHANGE: Final = "raiseQuota"


def least(question: PlacementQuestion) -> Remedy | None:
    """Return the quotas with the least limits that admit as many pods as are needed, in the order of their creation; None where no quota
    is short, or something else refuses them, too."""
    snapshot = question.snapshot
    places = {pod_key(pod): i for i, pod in enumerate(snapshot.pods)}
    new = [places[key] for key in snapshot.to_create if key in places]
    admission, raised, left = Admission(snapshot, new), Limits(), question.needed
    for i in new:
        pod = snapshot.pods[i]
        wanted = i in question.pods and left > 0
        if admission.refusal(pod) is not None:
            if not wanted:
                continue
            if admission.always(pod) is not None:
                return None
            for ledger in admission.concerned(pod):
                for resource, asked in ledger.usage(pod).items():
                    short = ledger.used.get(resource, Fraction(0)) + asked
                    if asked and short > ledger.hard.get(resource, short):
                        ledger.hard[resource] = short
                        metadata = ledger.quota.metadata
                        raised.setdefault(f"{metadata.namespace or 'default'}/{metadata.name}", {})[resource] = amount(resource, short)
        admission.admit(pod)
        left -= wanted
    return Remedy(CHANGE, sentence(snapshot, raised), arguments(raised)) if raised and not left else None


def taken(question: PlacementQuestion, changed: Mapping[str, str]) -> PlacementQuestion:
    """Return the question with the quotas of the remedy's arguments."""
    limits = {key: dict(part.split("=", 1) for part in text.split(",")) for key, text in changed.items()}
    return replace(question, snapshot=with_quotas(question.snapshot, limits))
