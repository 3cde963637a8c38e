"""VerticalPodAutoscaler objects: the recommendations that their recommender writes into the status.

Source: https://github.com/kubernetes/autoscaler/tree/master/vertical-pod-autoscaler, API
``autoscaling.k8s.io/v1``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubestow.models.documents.placement import ContainerRequests
from kubestow.models.right_sizing.quantities import RESOURCES, canonical

_KIND: Final = "VerticalPodAutoscaler"


def objects(plain: Any) -> list[Any] | None:
    """Return the VerticalPodAutoscalers of a document, which may be a list; None if it holds none but other data."""
    if not isinstance(plain, dict):
        return None
    if plain.get("kind") == _KIND:
        return [plain]
    items = plain.get("items")
    if isinstance(items, list):
        autoscalers = [item for item in items if isinstance(item, dict) and item.get("kind", _KIND) == _KIND]
        listed = plain.get("kind") == f"{_KIND}List" or any("kind" in item for item in autoscalers)
        return autoscalers if listed and (autoscalers or not items) else None
    return None


def read(plain: Any) -> Iterator[ContainerRequests]:
    """Yield the targets that a VerticalPodAutoscaler recommends, if any.

    Raises:
        ValueError: The object deviates from the API; the text begins with object and field.
    """
    try:
        metadata, target = plain["metadata"], plain["spec"]["targetRef"]
        who = f"{_KIND} {metadata.get('namespace') or 'default'}/{metadata['name']}"
        workload = f"{target['kind']} {metadata.get('namespace') or 'default'}/{target['name']}"
        status = plain.get("status") or {}
        listed = (status.get("recommendation") or {}).get("containerRecommendations") or ()
    except (KeyError, TypeError, AttributeError):
        raise ValueError(f"{_KIND}: expected metadata.name and spec.targetRef with kind and name") from None
    for i, each in enumerate(listed):
        where = f"{who}: status.recommendation.containerRecommendations[{i}]"
        try:
            container, amounts = each["containerName"], each["target"]
            known = {resource: amounts[resource] for resource in RESOURCES if resource in amounts}
        except (KeyError, TypeError):
            raise ValueError(f"{where}: expected containerName and target") from None
        try:
            requests = {resource: canonical(resource, raw) for resource, raw in known.items()}
        except ValueError as error:
            raise ValueError(f"{where}.target: {error}") from None
        if requests:
            yield ContainerRequests(workload, str(container), requests)
