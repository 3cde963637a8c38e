"""Relaxed rules of one pod, from the arguments of a remedy. Pods share their parts, so parts are replaced, not modified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod, Toleration

Arguments = Mapping[str, str]
#: Weight of a required term that becomes preferred: the maximum of the API.
MAX_TERM_WEIGHT: Final = 100
_encoder = msgspec.json.Encoder(order="deterministic")


def text(part: msgspec.Struct) -> str:
    """Return an API object as an argument: JSON with sorted keys and without unset fields."""
    return _encoder.encode(part).decode()


def _with(pod: Pod, **fields: object) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


def _spread(pod: Pod, arguments: Arguments) -> Pod:
    wanted = arguments["constraint"]
    changed = {"maxSkew": int(arguments["to"])} if "to" in arguments else {"whenUnsatisfiable": "ScheduleAnyway", "minDomains": None}
    constraints = [
        msgspec.structs.replace(c, **changed) if text(c) == wanted else c for c in pod.spec.topologySpreadConstraints or ()
    ]  # minDomains is valid only with DoNotSchedule
    return _with(pod, topologySpreadConstraints=constraints)


def _term(pod: Pod, arguments: Arguments) -> Pod:
    """Return the pod with a required term of ``podAffinity`` or ``podAntiAffinity`` made preferred, with maximum weight."""
    kind, wanted = arguments["kind"], arguments["term"]
    affinity = pod.spec.affinity
    part: objects.PodAffinity | None = getattr(affinity, kind) if affinity is not None else None
    if affinity is None or part is None:
        return pod
    changed: dict[str, object] = {}
    matching: list[objects.PodAffinityTerm] = []
    for variant in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        terms = getattr(part, variant)
        if terms:
            matching += [t for t in terms if text(t) == wanted]
            changed[variant] = [t for t in terms if text(t) != wanted] or None
    if not matching:
        return pod
    preferred = list(part.preferredDuringSchedulingIgnoredDuringExecution or ())
    preferred.append(objects.WeightedPodAffinityTerm(MAX_TERM_WEIGHT, matching[0]))
    part = msgspec.structs.replace(part, **changed, preferredDuringSchedulingIgnoredDuringExecution=preferred)
    return _with(pod, affinity=msgspec.structs.replace(affinity, **{kind: part}))


def _node_selector(pod: Pod, arguments: Arguments) -> Pod:
    entries = pod.spec.nodeSelector or {}
    if entries.get(arguments["key"]) != arguments["value"]:
        return pod
    return _with(pod, nodeSelector={k: v for k, v in entries.items() if k != arguments["key"]} or None)


def _node_affinity(pod: Pod, arguments: Arguments) -> Pod:
    """Return the pod without an expression in every alternative. An alternative without other expressions then admits every node."""
    affinity = pod.spec.affinity
    part = affinity.nodeAffinity if affinity is not None else None
    if affinity is None or part is None:
        return pod
    changed: dict[str, object] = {}
    for variant in ("requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"):
        selector: objects.NodeSelector | None = getattr(part, variant)
        if selector is not None:
            changed[variant] = _without(selector, arguments["expression"])
    return _with(pod, affinity=msgspec.structs.replace(affinity, nodeAffinity=msgspec.structs.replace(part, **changed)))


def _without(selector: objects.NodeSelector, expression: str) -> objects.NodeSelector | None:
    terms = []
    for term in selector.nodeSelectorTerms or ():
        expressions = [e for e in term.matchExpressions or () if text(e) != expression]
        fields = [f for f in term.matchFields or () if text(f) != expression]
        if (term.matchExpressions or term.matchFields) and not expressions and not fields:
            return None
        terms.append(objects.NodeSelectorTerm(expressions or None, fields or None))
    return objects.NodeSelector(terms)


def _toleration(pod: Pod, arguments: Arguments) -> Pod:
    value = arguments.get("value")
    added = Toleration(arguments["key"], "Equal" if value else "Exists", value, arguments["effect"])
    return _with(pod, tolerations=[*(pod.spec.tolerations or ()), added])


def _host_port(pod: Pod, arguments: Arguments) -> Pod:
    number, protocol = int(arguments["port"]), arguments["protocol"]

    def without(containers: list[objects.Container] | None) -> list[objects.Container] | None:
        if not containers:
            return containers
        return [
            msgspec.structs.replace(
                c,
                ports=[
                    msgspec.structs.replace(p, hostPort=None) if p.hostPort == number and (p.protocol or "TCP") == protocol else p
                    for p in c.ports
                ],
            )
            if c.ports
            else c
            for c in containers
        ]

    return _with(pod, containers=without(pod.spec.containers), initContainers=without(pod.spec.initContainers))


#: By the remedy's ``change``, a function that returns the changed pod of the named owner.
POD_CHANGES: Final[dict[str, Callable[[Pod, Arguments], Pod]]] = {
    "raiseMaxSkew": _spread,
    "scheduleAnyway": _spread,
    "preferTerm": _term,
    "dropNodeSelector": _node_selector,
    "dropNodeAffinity": _node_affinity,
    "tolerate": _toleration,
    "dropHostPort": _host_port,
}
#: Changes that do not affect running pods.
NEW_PODS_ONLY: Final = {"dropHostPort"}
