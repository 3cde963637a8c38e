"""The remedies for DynamicResources: relaxed claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import msgspec

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube import device_objects as api
from kubestow.models.kube.objects import Pod
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.ownership import PodOwners, name
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.remedies import Arguments, Idea, Number, SnapshotChange, text


@dataclass(frozen=True)
class _ClaimToRelax:
    """A claim of pods to be allocated.

    Attributes:
        entry: Its name in the pods' specs.
        pod: One of the pods.
    """

    owner: str
    entry: str
    pod: Pod
    spec: api.DeviceClaim


def _claims_to_relax(cluster: Cluster) -> Iterator[_ClaimToRelax]:
    """Yield the unallocated claims of the pending pods, by owner and entry."""
    snapshot, seen = cluster.snapshot, set[tuple[str, str, bytes]]()
    for owner, pods in PodOwners(snapshot).group(cluster.scope.pending).items():
        for i in pods:
            for entry, key in _entries(snapshot.pods[i]):
                claim = snapshot.resource_claims.get(key)
                devices = claim.spec.devices if claim is not None and claim.spec is not None else None
                if claim is None or devices is None or (claim.status is not None and claim.status.allocation is not None):
                    continue
                known = owner, entry, msgspec.json.encode(devices)
                if known not in seen:
                    seen.add(known)
                    yield _ClaimToRelax(owner, entry, snapshot.pods[i], devices)


def _entries(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the name of each claim entry of a pod, and its claim (``namespace/name``)."""
    made = {each.name: each.resourceClaimName for each in (pod.status.resourceClaimStatuses if pod.status is not None else None) or ()}
    for entry in pod.spec.resourceClaims or ():
        claim = entry.resourceClaimName or made.get(entry.name)
        if claim:
            yield entry.name, f"{pod.metadata.namespace or 'default'}/{claim}"


def _dropped(cluster: Cluster) -> Iterator[tuple[int, Remedy]]:
    """Yield the parts that claims could drop, each with a size of the loss."""
    taints = sorted({taint for kind in cluster.devices.inventory.kinds for taint in kind.taints}) if cluster.devices is not None else []
    for each in _claims_to_relax(cluster):
        base, of = {"workload": each.owner, "claim": each.entry}, f"claim {each.entry} of {name(each.owner)}"
        for request in each.spec.requests or ():
            if request.exactly is None:
                continue
            for key, value, effect in taints:
                shown = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
                arguments = {**base, "request": request.name, "key": key, "effect": effect, **({"value": value} if value else {})}
                yield 1, Remedy("tolerateDeviceTaint", f"let {of} tolerate devices tainted {shown}", arguments)
            for selector in request.exactly.selectors or ():
                if selector.cel is not None:
                    arguments = {**base, "request": request.name, "expression": selector.cel.expression}
                    yield 6, Remedy("dropDeviceSelector", f"drop the selector {selector.cel.expression} from {of}", arguments)
        for constraint in each.spec.constraints or ():
            kind = "matchAttribute" if constraint.matchAttribute is not None else "distinctAttribute"
            words = f"drop {kind} {constraint.matchAttribute or constraint.distinctAttribute} from {of}"
            yield 4, Remedy("dropDeviceConstraint", words, {**base, "constraint": text(constraint)})


def _counts(cluster: Cluster) -> Iterator[Number]:
    """Yield the counts of requests for several devices."""
    for each in _claims_to_relax(cluster):
        for request in each.spec.requests or ():
            count = request.exactly.count if request.exactly is not None and request.exactly.allocationMode != "All" else None
            if count is not None and count > 1:

                def fewer(to: int, each: _ClaimToRelax = each, request: str = request.name, count: int = count) -> Remedy:
                    words = f"request {to} instead of {count} devices in claim {each.entry} of {name(each.owner)}"
                    arguments = {"workload": each.owner, "claim": each.entry, "request": request, "from": str(count), "to": str(to)}
                    return Remedy("lowerDeviceCount", words, arguments)

                yield Number(count, 1, fewer)


def _edited(change: Callable[[api.DeviceClaim, Arguments], api.DeviceClaim]) -> SnapshotChange:
    """Return the change of a snapshot that changes the named claims of some pods."""

    def edited(snapshot: Snapshot, pods: Collection[int], arguments: Arguments) -> Snapshot:
        owners, claims = PodOwners(snapshot), dict(snapshot.resource_claims)
        wanted = {i for owner in arguments["workload"].split("; ") for i in owners.members(owner)} & set(pods)
        for key in {key for i in wanted for entry, key in _entries(snapshot.pods[i]) if entry == arguments["claim"]}:
            claim = claims.get(key)
            if claim is not None and claim.spec is not None and claim.spec.devices is not None:
                devices = change(claim.spec.devices, arguments)
                claims[key] = msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))
        return replace(snapshot, resource_claims=claims)

    return edited


def _requests(spec: api.DeviceClaim, arguments: Arguments, **fields: object) -> api.DeviceClaim:
    requests = [
        msgspec.structs.replace(each, exactly=msgspec.structs.replace(each.exactly, **fields))
        if each.name == arguments["request"] and each.exactly is not None
        else each
        for each in spec.requests or ()
    ]
    return msgspec.structs.replace(spec, requests=requests)


def _exactly(spec: api.DeviceClaim, arguments: Arguments) -> api.ExactDeviceRequest:
    request = next((each.exactly for each in spec.requests or () if each.name == arguments["request"]), None)
    return request or api.ExactDeviceRequest()


def _count(spec: api.DeviceClaim, arguments: Arguments) -> api.DeviceClaim:
    return _requests(spec, arguments, count=int(arguments["to"]))


def _tolerate(spec: api.DeviceClaim, arguments: Arguments) -> api.DeviceClaim:
    more = api.DeviceToleration(arguments["key"], "Equal", arguments.get("value"), arguments["effect"])
    return _requests(spec, arguments, tolerations=[*(_exactly(spec, arguments).tolerations or ()), more])


def _selector(spec: api.DeviceClaim, arguments: Arguments) -> api.DeviceClaim:
    remaining = [
        each for each in _exactly(spec, arguments).selectors or () if each.cel is None or each.cel.expression != arguments["expression"]
    ]
    return _requests(spec, arguments, selectors=remaining or None)


def _constraint(spec: api.DeviceClaim, arguments: Arguments) -> api.DeviceClaim:
    return msgspec.structs.replace(spec, constraints=[c for c in spec.constraints or () if text(c) != arguments["constraint"]] or None)


class DeviceRemedies(Rule):
    """Claims to relax."""

    snapshot_changes = {
        "lowerDeviceCount": _edited(_count),
        "tolerateDeviceTaint": _edited(_tolerate),
        "dropDeviceSelector": _edited(_selector),
        "dropDeviceConstraint": _edited(_constraint),
    }

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        for size, remedy in _dropped(cluster):
            yield Idea(cls.name, size, remedy)

    @classmethod
    def lowers(cls, cluster: Cluster) -> Iterator[Number]:
        yield from _counts(cluster)
