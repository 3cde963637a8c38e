"""Conversion of the capacity documents (Fit, Sizing, Survival, Upgrade) to and from plain values."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubestow.models.documents import placement as placements
from kubestow.models.documents.fit import Fit
from kubestow.models.documents.placement import API_VERSION
from kubestow.models.documents.sizing import Sizing
from kubestow.models.documents.survival import Survival
from kubestow.models.documents.upgrade import Upgrade
from kubestow.models.kube.lenient_decode import shorten

Capacity = Fit | Sizing | Survival | Upgrade

KINDS: Final[dict[str, type[Capacity]]] = {"Fit": Fit, "Sizing": Sizing, "Survival": Survival, "Upgrade": Upgrade}

#: First and last fields of printed documents: the question and the answer come before the proof.
_FIRST: Final = ("apiVersion", "kind", "snapshot", "mode", "pool", "removed", "keep", "fail", "atOnce", "priority", "preemption")
_LAST: Final = ("placement", "outcomes", "headroom", "survival", "series", "unmodelled", "policy", "notes", "seconds")


def to_builtins(document: Capacity) -> dict[str, Any]:
    """Return the document as plain dicts and lists, in printed order, without null fields and without empty ``devices``."""
    plain: dict[str, Any] = msgspec.to_builtins(document)
    if isinstance(document, Fit | Sizing | Survival) and document.placement is not None:
        plain["placement"] = placements.to_builtins(document.placement)
    if isinstance(document, Sizing) and document.survival is not None:
        plain["survival"] = to_builtins(document.survival)
    moments = (document.series or []) if isinstance(document, Sizing) else []
    for moment, entry in zip(moments, plain.get("series") or (), strict=True):
        if moment.placement is not None:
            entry["placement"] = placements.to_builtins(moment.placement)
    for outcome in plain.get("outcomes", ()):
        placements.leave_out_no_devices(outcome.get("assignments", ()))
    for room in plain.get("headroom") or ():
        placements.leave_out_no_devices(room.get("assignments", ()))
    between = [field for field in plain if field not in _FIRST and field not in _LAST]
    return {field: plain[field] for field in (*_FIRST, *between, *_LAST) if plain.get(field) is not None}


def from_builtins(plain: object, kind: str) -> Capacity:
    """Return a decoded JSON or YAML document of one of :data:`KINDS` as a Struct.

    Raises:
        msgspec.ValidationError: A field is missing or has a wrong type. The message has its path.
    """
    found: Capacity = placements.from_builtins(plain, KINDS[kind])
    parts = [("placement", getattr(found, "placement", None)), ("survival", getattr(found, "survival", None))]
    parts += [(f"series[{i}].placement", moment.placement) for i, moment in enumerate(getattr(found, "series", None) or ())]
    for field, within in parts:
        expected = field.rpartition(".")[2].capitalize()
        if within is not None and (within.apiVersion, within.kind) != (API_VERSION, expected):
            stated = f"{shorten(within.apiVersion)} {shorten(within.kind)}"
            raise msgspec.ValidationError(f"expected {API_VERSION} {expected}, got {stated} - at `$.{field}`")
    return found
