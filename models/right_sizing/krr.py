"""The output of ``krr … -f json``: a scan for each container of a workload, cores and bytes as numbers.

Source: https://github.com/robusta-dev/krr, ``robusta_krr/core/models/result.py`` and ``objects.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubestow.models.documents.placement import ContainerRequests
from kubestow.models.kube.kinds import WORKLOADS
from kubestow.models.right_sizing.quantities import RESOURCES, number, text

#: krr's values for unknown amounts.
_UNKNOWN: Final = (None, "?", "NaN")


def is_krr(plain: Any) -> bool:
    """Return True if a document is krr's."""
    return isinstance(plain, dict) and isinstance(plain.get("scans"), list)


def read(plain: Any) -> Iterator[ContainerRequests]:
    """Yield the requests that krr recommends, empty if unknown. Limits are ignored.

    Workloads of other kinds are represented by their pods, if they have any.

    Raises:
        ValueError: The document deviates from krr's format; the text begins with the field's path.
    """
    for i, scan in enumerate(plain["scans"]):
        try:
            obj, recommended = scan["object"], scan["recommended"]["requests"]
            kind, namespace, name, container = (_text(obj[key]) for key in ("kind", "namespace", "name", "container"))
            requests: dict[str, str] = {}
            for resource in RESOURCES:
                value = recommended.get(resource)
                if isinstance(value, dict):
                    value = value["value"]
                if value not in _UNKNOWN and value == value:  # YAML's .nan is a float
                    requests[resource] = _amount(resource, value)
            pods = [_text(pod["name"]) for pod in obj.get("pods") or () if not pod.get("deleted")]
        except (KeyError, TypeError, AttributeError) as error:
            missing = f": {error.args[0]} is missing" if isinstance(error, KeyError) else ""
            raise ValueError(f"{_who(i, scan)}{missing or ': expected object and recommended, as krr writes them'}") from None
        except ValueError as error:
            raise ValueError(f"{_who(i, scan)}: {error}") from None
        if kind in WORKLOADS or not pods:
            yield ContainerRequests(f"{kind} {namespace}/{name}", container, requests)
        else:
            for pod in pods:
                yield ContainerRequests(f"Pod {namespace}/{pod}", container, requests)


def _amount(resource: str, value: object) -> str:
    try:
        return text(resource, number(value))
    except ValueError as error:
        raise ValueError(f"recommended.requests.{resource}: {error}") from None


def _who(i: int, scan: Any) -> str:
    """Return the index of a scan, with its workload and container as far as stated."""
    obj = scan.get("object") if isinstance(scan, dict) else None
    identity = [obj.get(key) for key in ("kind", "namespace", "name", "container")] if isinstance(obj, dict) else []
    kind, namespace, name, container = (repr(each[:60])[1:-1] if isinstance(each, str) and each else "?" for each in identity or [None] * 4)
    return f"scans[{i}]" + (f": {kind} {namespace}/{name}: container {container}" if any(identity) else "")


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("expected a text in kind, namespace, name and container of object, and in name of pods")
    return value
