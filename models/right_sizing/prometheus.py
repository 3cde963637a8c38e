"""Answers of Prometheus to range queries: usage of containers over time, reduced to a quantile or the maximum.

Source: https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from kubestow.models.documents.placement import ContainerRequests
from kubestow.models.right_sizing.quantities import RESOURCES, number, text

_SPEC: Final = re.compile(r"(?P<resource>cpu|memory)(?::(?:p(?P<rank>[0-9]{1,2}(?:\.[0-9]{1,3})?|100)|max))?(?:\+(?P<more>[0-9]{1,3})%)?\Z")
EXPECTED: Final = "expected cpu or memory, then nothing, :p0 to :p100 or :max, then nothing or +0% to +999%"
_NOT_FINITE: Final = ("NaN", "+Inf", "-Inf")
#: Default percentiles. Some CPU throttling is harmless, but one byte too many kills the container.
_DEFAULT: Final = {"cpu": Fraction(95), "memory": Fraction(100)}


@dataclass(frozen=True)
class SampleQuantile:
    """The reduction of samples.

    Attributes:
        rank: Percent of samples that must not exceed the result.
        more: Percent added to the result.
    """

    resource: str
    rank: Fraction
    more: int = 0

    def of(self, samples: list[Fraction]) -> Fraction:
        """Return the quantile by nearest rank, with the addition."""
        ordered = sorted(samples)
        place = -(-self.rank * len(ordered) // 100)
        return ordered[max(1, int(place)) - 1] * (100 + self.more) / 100


def parse(spec: str) -> SampleQuantile | None:
    """Return the reduction for ``cpu``, ``cpu:p95`` or ``memory:max+15%``; None if a text has another form."""
    match = _SPEC.match(spec)
    if match is None:
        return None
    explicit = ":" in spec
    rank = Fraction(match["rank"]) if match["rank"] else Fraction(100) if explicit else _DEFAULT[match["resource"]]
    return SampleQuantile(match["resource"], rank, int(match["more"] or 0))


def is_matrix(plain: Any) -> bool:
    """Return True if a document is the answer to a range query, whole or its ``data``."""
    data = plain.get("data", plain) if isinstance(plain, dict) else None
    return isinstance(data, dict) and data.get("resultType") == "matrix"


def _sample(pair: list[Any]) -> Fraction:
    """Return the value of a sample ``[time, value]``.

    Raises:
        TypeError: Not such a pair.
        ValueError: The value is no valid usage.
    """
    if not isinstance(pair, list) or len(pair) != 2:
        raise TypeError
    value = number(pair[1])
    if value < 0:
        raise ValueError("expected usage of at least 0")
    return value


def read(plain: Any, quantile: SampleQuantile) -> Iterator[ContainerRequests]:
    """Yield the usage of containers, in cores or bytes.

    Series without a container (the pod's own cgroup, its pause container) and samples that are not finite are
    skipped. A container without other samples gets no requests.

    Raises:
        ValueError: The document deviates from Prometheus' format; the text begins with the field's path.
    """
    data = plain.get("data", plain)
    samples: dict[tuple[str, str, str], list[Fraction]] = {}
    listed = data.get("result") or ()
    if not isinstance(listed, list | tuple):
        raise ValueError("data.result: expected a list of series")
    for i, series in enumerate(listed):
        try:
            labels, values = series["metric"], series["values"]
            container = labels.get("container", labels.get("container_name")) or "POD"
            pod, namespace = labels.get("pod", labels.get("pod_name")), labels.get("namespace")
            if container == "POD":
                continue
            if not all(isinstance(label, str) and label for label in (namespace, pod, container)):
                raise ValueError("expected the labels namespace, pod and container")
            finite = [_sample(pair) for pair in values if pair[1] not in _NOT_FINITE]
        except (KeyError, IndexError, TypeError, AttributeError):
            raise ValueError(f"data.result[{i}]: expected metric and values") from None
        except ValueError as error:
            raise ValueError(f"data.result[{i}]: {error}") from None
        samples.setdefault((namespace, pod, container), []).extend(finite)
    for (namespace, pod, container), amounts in samples.items():
        requests = {quantile.resource: text(quantile.resource, quantile.of(amounts))} if amounts else {}
        yield ContainerRequests(f"Pod {namespace}/{pod}", container, requests)


assert set(_DEFAULT) == set(RESOURCES)
