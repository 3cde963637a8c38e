"""Helm hooks in manifests: objects that Helm creates at another time than those of the release.

For each event, Helm creates the hooks one after the other, by weight, kind and name. It waits until each Job or Pod has ended.

Sources: https://helm.sh/docs/topics/charts_hooks/, and pkg/action/hooks.go and pkg/release/util of https://github.com/helm/helm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from kubestow.models.kube.lenient_decode import plain

#: Time at which a hook runs, relative to an installation or upgrade.
Time = Literal["before", "after"]

HOOK: Final = "helm.sh/hook"
_WEIGHT: Final = "helm.sh/hook-weight"
DELETE_POLICY: Final = "helm.sh/hook-delete-policy"
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_TIMES: Final[dict[Time, frozenset[str]]] = {
    "before": frozenset({"pre-install", "pre-upgrade", "crd-install"}),
    "after": frozenset({"post-install", "post-upgrade"}),
}
_WHEN: Final[dict[Time | None, str]] = {
    "before": "run before the release, one after the other, and are not placed with it",
    "after": "run after the release, one after the other, and are not placed with it",
    None: "do not run when the release is installed or upgraded, and are not placed",
}
#: Kinds that Helm waits for until they end. Other objects count as ready when they are created.
_ENDING: Final = ("Pod", "Job")
#: The kinds with pods, in the order in which Helm creates them.
_KINDS: Final = (
    "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment", "StatefulSet", "Job", "CronJob", "PodTemplate",
)  # fmt: skip


class Hook(NamedTuple):
    """A hook of an installation or an upgrade.

    Attributes:
        obj: The Pod, or the workload.
        time: Time at which it runs. A hook of several events may run twice.
        weight: Weight; lighter hooks run first.
        stays: True if its pods stay, so that they run next to those of the release.
        replaces: True if Helm deletes the object of this name before it creates the hook.
    """

    obj: Any
    time: Time
    weight: int
    stays: bool
    replaces: bool

    @property
    def kind(self) -> str:
        return type(self.obj).__name__

    @property
    def ref(self) -> str:
        """``Kind namespace/name``."""
        return _ref(self.obj)


def is_hook(obj: Any, time: Time) -> bool:
    """Return True if an object is a hook that runs at the given time."""
    return bool(_TIMES[time] & _stated(obj, HOOK))


def set_aside(pods: list[Any], workloads: Mapping[str, list[Any]]) -> tuple[list[Hook], list[str]]:
    """Remove the pods and workloads of manifests that do not run next to the release.

    Returns:
        The hooks in the order in which they run, and one sentence for each time.
    """
    hooks: list[Hook] = []
    unused: list[Any] = []
    for objects in (pods, *workloads.values()):
        listed = [(obj, _hooks(obj)) for obj in objects]
        hooks += [hook for _, each in listed for hook in each]
        unused += [obj for obj, each in listed if _stated(obj, HOOK) and not each]
        objects[:] = [obj for obj, each in listed if not _stated(obj, HOOK) or any(hook.stays for hook in each)]
    hooks.sort(key=_order)
    sentences = []
    for time in (*_TIMES, None):
        names = [_named(hook.obj) for hook in hooks if hook.time == time and not hook.stays] if time else [_named(obj) for obj in unused]
        sentences += [f"Helm hooks that {_WHEN[time]}: {', '.join(names)}"] if names else []
    return hooks, sentences


def _hooks(obj: Any) -> list[Hook]:
    stated = (obj.metadata.annotations or {}).get(_WEIGHT) or ""
    policies = _stated(obj, DELETE_POLICY) or {"before-hook-creation"}
    stays = type(obj).__name__ not in _ENDING and "hook-succeeded" not in policies
    weight = int(stated) if _NUMBER.fullmatch(stated) else 0
    return [Hook(obj, time, weight, stays, "before-hook-creation" in policies) for time in _TIMES if is_hook(obj, time)]


def _order(hook: Hook) -> tuple[bool, int, int, str]:
    kind = _KINDS.index(hook.kind) if hook.kind in _KINDS else len(_KINDS)
    return hook.time == "after", hook.weight, kind, hook.obj.metadata.name or ""


def _stated(obj: Any, annotation: str) -> set[str]:
    """Return the comma-separated words of an annotation."""
    text = (obj.metadata.annotations or {}).get(annotation) or ""
    return {word for each in text.split(",") if (word := each.strip())}


def _named(obj: Any) -> str:
    annotations: Mapping[str, str] = obj.metadata.annotations or {}
    weight = f", weight {plain(annotations[_WEIGHT])}" if annotations.get(_WEIGHT) else ""
    return f"{_ref(obj)} ({plain(annotations[HOOK])}{weight})"


def _ref(obj: Any) -> str:
    return f"{type(obj).__name__} {obj.metadata.namespace or 'default'}/{obj.metadata.name}"


def running_before(hooks: Iterable[Hook], hook: Hook) -> list[Hook]:
    """Return the hooks that start before the given hook at the same time of the release and do not end.

    Helm deletes them only after all hooks have finished.
    """
    found = []
    for each in hooks:
        if each is hook:
            break
        if each.time == hook.time and each.kind not in _ENDING:
            found.append(each)
    return found
