"""Annotations of a namespace that change or reject its new pods: node selectors, default and allowed tolerations.

OpenShift always reads ``openshift.io/node-selector``. The annotations of ``scheduler.alpha.kubernetes.io``
belong to admission plugins that are off by default. They count if the policy's ``admissionPlugins`` names the
plugin (``Snapshot.admission_plugins``).

Sources: plugin/pkg/admission/podnodeselector, plugin/pkg/admission/podtolerationrestriction,
pkg/util/tolerations; of OpenShift openshift-kube-apiserver/admission/scheduler/nodeenv.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kubestow.models.kube import objects
from kubestow.models.kube.lenient_decode import shorten
from kubestow.models.kube.pod_spec import BEST_EFFORT, qos_class
from kubestow.models.snapshot.snapshot import Snapshot

SELECTOR_PLUGIN: Final = "PodNodeSelector"
TOLERATIONS_PLUGIN: Final = "PodTolerationRestriction"
PROJECT_SELECTOR: Final = "openshift.io/node-selector"
NODE_SELECTOR: Final = "scheduler.alpha.kubernetes.io/node-selector"
DEFAULT_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
ALLOWED_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
#: The annotations that count only with their plugin.
_OF_PLUGINS: Final = {
    NODE_SELECTOR: SELECTOR_PLUGIN,
    DEFAULT_TOLERATIONS: TOLERATIONS_PLUGIN,
    ALLOWED_TOLERATIONS: TOLERATIONS_PLUGIN,
}
#: The plugin's toleration for every pod with requests.
_MEMORY_PRESSURE: Final = objects.Toleration("node.kubernetes.io/memory-pressure", "Exists", None, "NoSchedule")
_change = msgspec.structs.replace


class Unreadable(ValueError):
    """An annotation of a namespace that the API server cannot parse. It then rejects every new pod of the namespace."""


class _Limit(msgspec.Struct):
    tolerationSeconds: int | None = None


def decides(snapshot: Snapshot) -> bool:
    """Return True if an annotation of some namespace may change or reject new pods."""
    return TOLERATIONS_PLUGIN in snapshot.admission_plugins or any(
        _counts(snapshot, key) for namespace in snapshot.namespaces.values() for key in namespace.metadata.annotations or ()
    )


def merged(spec: objects.PodSpec, namespace: str, snapshot: Snapshot) -> objects.PodSpec:
    """Return the spec of a new pod with the node selector and tolerations of its namespace; the pod's own values win."""
    annotations, added = _annotations(snapshot, namespace), selector(snapshot, namespace)
    if added:
        spec = _change(spec, nodeSelector={**added, **(spec.nodeSelector or {})})
    if TOLERATIONS_PLUGIN not in snapshot.admission_plugins:
        return spec
    try:
        more = _tolerations(annotations, DEFAULT_TOLERATIONS)
    except Unreadable:
        more = []
    if qos_class(objects.Pod(objects.ObjectMeta(), spec)) != BEST_EFFORT:
        more = [*more, _MEMORY_PRESSURE]
    return _change(spec, tolerations=_united(spec.tolerations or (), more)) if more else spec


def selector(snapshot: Snapshot, namespace: str) -> dict[str, str]:
    """Return the node labels that a namespace adds to the nodeSelector of its pods; none if they are unreadable."""
    try:
        return _selector(snapshot, _annotations(snapshot, namespace))[1]
    except Unreadable:
        return {}


def refusal(pod: objects.Pod, snapshot: Snapshot) -> tuple[str, str] | None:
    """Return the plugin that rejects a new pod, and its reason; None if none does.

    The pod's spec must have been through :func:`merged`.
    """
    annotations = _annotations(snapshot, pod.metadata.namespace or "default")
    rule = SELECTOR_PLUGIN
    try:
        whose, labels = _selector(snapshot, annotations)
        if any((pod.spec.nodeSelector or {}).get(key, value) != value for key, value in labels.items()):
            return rule, f"pod node label selector conflicts with its {whose} node label selector"
        rule = TOLERATIONS_PLUGIN
        if rule in snapshot.admission_plugins:
            _tolerations(annotations, DEFAULT_TOLERATIONS)
            allowed = _tolerations(annotations, ALLOWED_TOLERATIONS)
            if allowed and not all(any(_covers(each, own) for each in allowed) for own in pod.spec.tolerations or ()):
                return rule, "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"
    except Unreadable as error:
        return rule, str(error)
    return None


def not_applied(snapshot: Snapshot, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield annotations of a namespace that may concern its new pods but are not applied, each with the reason."""
    annotations = _annotations(snapshot, namespace)
    for key, plugin in _OF_PLUGINS.items():
        if key not in annotations:
            continue
        where = f"namespace {namespace}: metadata.annotations[{key}]"
        if plugin not in snapshot.admission_plugins:
            yield where, f"ignored: the policy's admissionPlugins does not name {plugin}"
        elif key == ALLOWED_TOLERATIONS and _timed(annotations[key]):
            yield where, "tolerationSeconds is ignored"


def _counts(snapshot: Snapshot, key: str) -> bool:
    return key == PROJECT_SELECTOR or _OF_PLUGINS.get(key) in snapshot.admission_plugins


def _annotations(snapshot: Snapshot, namespace: str) -> Mapping[str, str]:
    obj = snapshot.namespaces.get(namespace)
    return (obj.metadata.annotations or {}) if obj is not None else {}


def _selector(snapshot: Snapshot, annotations: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the required node labels of a namespace's pods, with the API server's word for the namespace.

    Raises:
        Unreadable: The annotation is no list of ``key=value``.
    """
    if NODE_SELECTOR in annotations:  # OpenShift leaves such namespaces to the plugin of Kubernetes
        key, whose, on = NODE_SELECTOR, "namespace", SELECTOR_PLUGIN in snapshot.admission_plugins
    else:
        key, whose, on = PROJECT_SELECTOR, "project", PROJECT_SELECTOR in annotations
    labels: dict[str, str] = {}
    for part in annotations[key].split(",") if on and annotations[key].strip() else ():
        name, equals, value = part.partition("=")
        if not (name.strip() and equals) or "=" in value:
            raise Unreadable(f"annotation {key} of its namespace: invalid selector: {shorten(annotations[key])}")
        labels[name.strip()] = value.strip()
    return whose, labels


def _tolerations(annotations: Mapping[str, str], key: str) -> list[objects.Toleration]:
    """Return the tolerations of an annotation; none if it is absent or empty.

    Raises:
        Unreadable: The annotation is no JSON list of tolerations.
    """
    if not annotations.get(key):
        return []
    try:
        return msgspec.json.decode(annotations[key], type=list[objects.Toleration] | None) or []
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Unreadable(f"annotation {key} of its namespace: {error}") from None


def _timed(text: str) -> bool:
    try:
        return any(each.tolerationSeconds is not None for each in msgspec.json.decode(text, type=list[_Limit] | None) or ())
    except (msgspec.DecodeError, UnicodeError):
        return False


def _parts(toleration: objects.Toleration) -> tuple[str, str, str, str]:
    return toleration.key or "", toleration.operator or "", toleration.value or "", toleration.effect or ""


def _covers(wide: objects.Toleration, narrow: objects.Toleration) -> bool:
    """Return True if one toleration tolerates everything that another one does (isSuperset)."""
    (key, operator, value, effect), other = _parts(wide), _parts(narrow)
    if _parts(wide) == other:
        return True
    if (other[0] != key and (key or operator != "Exists")) or (effect and other[3] != effect):
        return False
    return operator == "Exists" or (operator in ("", "Equal") and other[1] == "Equal" and other[2] == value)


def _united(first: Sequence[objects.Toleration], second: Sequence[objects.Toleration]) -> list[objects.Toleration]:
    """Return two lists of tolerations as one, without tolerations that another one covers (MergeTolerations)."""
    together = [*first, *second]
    found: list[objects.Toleration] = []
    for i, each in enumerate(together):
        later = any(_parts(other) != _parts(each) and _covers(other, each) for other in together[i + 1 :])
        if not later and not any(_covers(other, each) for other in found):
            found.append(each)
    return found
