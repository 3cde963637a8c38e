"""New pods against their namespace's annotations: the node selector that they must extend, and the tolerations that they may have.

The pods are those of ``Snapshot.to_create`` in stored form. Written from the Validate steps of the admission
plugins PodNodeSelector and PodTolerationRestriction (k8s.io/kubernetes) and OriginPodNodeEnvironment (OpenShift).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from kubestow.models.kube import objects
from kubestow.models.snapshot.snapshot import Snapshot

_ALPHA: Final = "scheduler.alpha.kubernetes.io/"
_PROJECT: Final = "openshift.io/node-selector"
_SELECTOR: Final = "PodNodeSelector"
_TOLERATIONS: Final = "PodTolerationRestriction"


def governed(snapshot: Snapshot) -> bool:
    """Return True if a namespace of the snapshot has annotations that may refuse a new pod."""
    keys = {key for found in snapshot.namespaces.values() for key in found.metadata.annotations or ()}
    return _PROJECT in keys or (bool(snapshot.admission_plugins) and any(key.startswith(_ALPHA) for key in keys))


def fault(snapshot: Snapshot, pod: objects.Pod) -> tuple[str, str] | None:
    """Return the plugin that refuses a pod and the reason, or None."""
    namespace = snapshot.namespaces.get(pod.metadata.namespace or "default")
    notes = (namespace.metadata.annotations if namespace is not None else None) or {}
    why = _selected(snapshot, notes, pod.spec.nodeSelector or {})
    if why is not None:
        return _SELECTOR, why
    why = _tolerated(notes, pod.spec.tolerations or []) if _TOLERATIONS in snapshot.admission_plugins else None
    return (_TOLERATIONS, why) if why is not None else None


def _selected(snapshot: Snapshot, notes: Mapping[str, str], own: Mapping[str, str]) -> str | None:
    text = notes.get(_PROJECT, "")
    if f"{_ALPHA}node-selector" in notes:
        text = notes[f"{_ALPHA}node-selector"] if _SELECTOR in snapshot.admission_plugins else ""
    pairs = [part.split("=") for part in text.split(",")] if text.strip() else []
    if any(len(pair) != 2 or not pair[0].strip() for pair in pairs):
        return "the node selector of the namespace cannot be read"
    required = {pair[0].strip(): pair[1].strip() for pair in pairs}
    lacking = [key for key in required if own.get(key) != required[key]]
    return f"its node selector does not extend the namespace's in {', '.join(lacking)}" if lacking else None


def _tolerated(notes: Mapping[str, str], own: list[objects.Toleration]) -> str | None:
    listed = []
    for kind in ("defaultTolerations", "tolerationsWhitelist"):
        try:
            listed.append(_listed(notes.get(_ALPHA + kind) or "[]"))
        except (TypeError, ValueError):
            return f"{kind} of the namespace cannot be read"
    given, allowed = listed
    mine = [(each.key or "", each.operator or "", each.value or "", each.effect or "") for each in own]
    if any(not any(_includes(each, default) for each in mine) for default in given):
        return "it lacks a default toleration of its namespace"
    if allowed and any(not any(_includes(each, toleration) for each in allowed) for toleration in mine):
        return "its namespace does not allow one of its tolerations"
    return None


_Parts = tuple[str, str, str, str]


def _listed(text: str) -> list[_Parts]:
    """Return key, operator, value and effect of the tolerations in an annotation.

    Raises:
        ValueError, TypeError: the text is not a list of tolerations.
    """
    value: Any = json.loads(text)
    found = []
    for each in value or ():
        if not isinstance(each, dict) or not all(isinstance(each.get(k) or "", str) for k in ("key", "operator", "value", "effect")):
            raise TypeError(text)
        found.append((each.get("key") or "", each.get("operator") or "", each.get("value") or "", each.get("effect") or ""))
    return found


def _includes(wide: _Parts, narrow: _Parts) -> bool:
    """Return True if ``wide`` tolerates everything that ``narrow`` tolerates."""
    if wide == narrow:
        return True
    any_key = wide[0] == "" and wide[1] == "Exists"
    if not (any_key or wide[0] == narrow[0]) or wide[3] not in ("", narrow[3]):
        return False
    if wide[1] == "Exists":
        return True
    return wide[1] in ("", "Equal") and narrow[1] == "Equal" and wide[2] == narrow[2]
