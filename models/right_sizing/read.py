"""Files of recommended requests, distinguished by their content."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from kubestow.models.documents.placement import ContainerRequests
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.right_sizing import krr, prometheus, vertical_pod_autoscaler
from kubestow.models.right_sizing.quantities import RESOURCES
from kubestow.models.snapshot.snapshot import InputError

_EXPECTED = "expected krr's JSON, VerticalPodAutoscaler objects, or RESOURCE=FILE with the answer of Prometheus to a range query"


def read(given: Sequence[str], odd: list[str] | None = None) -> list[ContainerRequests]:
    """Return all recommendations of files; those of later files come last.

    Args:
        given: ``FILE``, or ``RESOURCE[:pNN|:max][+N%]=FILE`` for an answer of Prometheus.
        odd: Collects a sentence for each file without any recommendation.

    Raises:
        InputError: A file cannot be read or has none of these formats.
    """
    found: list[ContainerRequests] = []
    problems: list[str] = []
    for text in given:
        spec, equals, path = text.partition("=")
        quantile = prometheus.parse(spec) if equals else None
        if quantile is None and _misspelt(spec, path, text):
            problems.append(f"--requests {text}: {shorten(spec)}: {prometheus.EXPECTED}")
            continue
        path = path if quantile is not None else text
        try:
            own = _read(path, quantile)
            found += own
            if not own and odd is not None:
                odd.append(f"--requests: {path} recommends nothing, and requests stay as they are")
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}")
        except ValueError as error:
            problems.append(f"{path}: {error}")
    if problems:
        raise InputError(problems)
    return found


def _misspelt(spec: str, path: str, text: str) -> bool:
    """Return True if a text looks like ``RESOURCE…=FILE`` with a mistake in RESOURCE, rather than like a file name."""
    resource = re.match("[a-z]*", spec.lower())
    meant = resource is not None and resource[0] in RESOURCES
    return bool(path) and not Path(text).exists() and (meant or Path(path).exists())


def _read(path: str, quantile: prometheus.SampleQuantile | None) -> list[ContainerRequests]:
    content = Path(path).read_bytes()
    documents = _documents(content)
    found: list[ContainerRequests] = []
    for plain in documents:
        if quantile is not None:
            if not prometheus.is_matrix(plain):
                if isinstance(plain, dict) and isinstance(plain.get("error"), str):
                    raise ValueError(f"Prometheus answered with an error: {shorten(plain['error'])}")
                raise ValueError("expected the answer of Prometheus to a range query, with resultType matrix")
            found += prometheus.read(plain, quantile)
        elif krr.is_krr(plain):
            found += krr.read(plain)
        elif prometheus.is_matrix(plain):
            raise ValueError("is an answer of Prometheus, expected with its resource: --requests cpu=FILE or memory=FILE")
        else:
            scalers = vertical_pod_autoscaler.objects(plain)
            if scalers is None:
                kind = plain.get("kind") if isinstance(plain, dict) else None
                raise ValueError(f"{f'is a {shorten(kind)}, ' if isinstance(kind, str) else ''}{_EXPECTED}")
            for scaler in scalers:
                found += vertical_pod_autoscaler.read(scaler)
    if not documents:
        raise ValueError(f"is empty, {_EXPECTED}")
    return found


def _documents(content: bytes) -> list[Any]:
    """Return the documents of JSON or YAML; numbers of JSON keep their exact value."""
    if content.lstrip()[:1] in (b"{", b"["):
        try:
            return [json.loads(content, parse_float=Decimal, parse_constant=str)]
        except (ValueError, RecursionError):
            pass  # a flow mapping of YAML may begin in the same way
    try:
        return [each for each in yaml.load_all(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if each is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise ValueError(f"{where}is neither JSON nor YAML") from None
