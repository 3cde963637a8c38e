"""Verdicts on a run from its world's log, independent of the run's own words. Each function returns sentences, none if all is well."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube.closed_nodes import CLOSED_BY, LET_IN
from tests.api_server import Entry, amounts, requests
from tests.live.apply.random_clusters import Posed

Object = dict[str, Any]


def left_behind(posed: Posed, *, drained: bool) -> list[str]:
    """Return the remains of a run in the cluster after its end, and budgets that it violated."""
    world, found = posed.world, []
    if world.budget_violations():
        found.append(f"budgets were violated: {world.budget_violations()}")
    marked = [one["metadata"]["name"] for one in world.all("Node") if CLOSED_BY in (one["metadata"].get("annotations") or {})]
    if marked:
        found.append(f"nodes are marked as closed: {marked}")
    if world.tainted(LET_IN):
        found.append(f"nodes let single pods in: {world.tainted(LET_IN)}")
    drain = posed.document.drain if drained and isinstance(posed.document, RebalancePlan) else []
    cordoned = sorted({*posed.cordoned, *drain})
    if world.cordoned() != cordoned:
        found.append(f"nodes {world.cordoned()} are cordoned, not {cordoned}")
    if any(world.leases().values()):
        found.append(f"Leases are held: {world.leases()}")
    return found


# --- pods of others -------------------------------------------------------------------------------------------------------


def foreign(posed: Posed, *, resumed: bool = False) -> list[str]:
    """Return pods that the scheduler bound, from the first closed node to the last opening, where the run's start left no capacity: next to
    all that ran there then and the pods of others that came since. ``resumed``: the first part may have got as far as that opening."""
    cordons = [one for one in posed.world.cordons() if one.actor == "client"]
    if not cordons:
        return []
    last = max(one.time for one in cordons if one.closed)
    if resumed:
        last = max((one.time for one in posed.world.log if _is_ours(one)), default=last)
    opened = min((one.time for one in cordons if not one.closed and one.time >= last), default=float("inf"))
    nodes = {one["metadata"]["name"]: _room(posed, one) for one in posed.start if one["kind"] == "Node"}
    counted = {one["metadata"]["uid"] for one in posed.start if one["kind"] == "Pod" and one["spec"].get("nodeName")}
    found = []
    for entry in posed.world.bound("scheduler"):
        if entry.time >= opened:
            break
        pod = entry.obj or {}
        if entry.uid in counted or _is_let_in(pod):
            continue
        room = nodes[entry.node]
        room.subtract(_use(pod))
        if entry.time > cordons[0].time and any(room[what] < 0 for what in _use(pod)):
            found.append(f"{entry.key} on {entry.node} at {entry.time}")
    return found


def _room(posed: Posed, node: Object) -> Counter[str]:
    """Return the free capacity of a node before the run."""
    room = Counter(amounts((node.get("status") or {}).get("allocatable")))
    for pod in posed.start:
        over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if pod["kind"] == "Pod" and pod["spec"].get("nodeName") == node["metadata"]["name"] and not over:
            room.subtract(_use(pod))
    return room


def _use(pod: Object) -> Counter[str]:
    return Counter({"pods": 1} | {what: amount for what, amount in requests(pod).items() if amount})


def _is_let_in(pod: Object) -> bool:
    return any(one.get("key") == LET_IN for one in pod["spec"].get("tolerations") or ())


# --- pods of the document -------------------------------------------------------------------------------------------------


def unlike_the_document(posed: Posed) -> list[str]:
    """Return in what the evictions and Bindings that were carried out are not those of the whole document, each once, and which pods are
    not where they were bound to."""
    wanted, seen = _wanted(posed), _seen(posed)
    found = [f"{what} too few: {dict(wanted[what] - seen[what])}" for what in wanted if wanted[what] - seen[what]]
    found += [f"{what} too many: {dict(seen[what] - wanted[what])}" for what in wanted if seen[what] - wanted[what]]
    ours, where = {one.key: one for one in posed.world.log if _is_ours(one)}, posed.world.where()
    return found + [
        f"{key} is on {where.get(key)}, not {one.node}" for key, one in ours.items() if one.verb == "bind" and where.get(key) != one.node
    ]


def half_done(posed: Posed) -> list[str]:
    """Return pods that a run which stopped has evicted and not replaced, although they were to go elsewhere, and gangs in part."""
    wanted, seen = _wanted(posed), _seen(posed)
    pending = Counter(owner for owner, _ in wanted["Bindings"].elements()) - Counter(owner for owner, _ in wanted["evictions"].elements())
    found = []
    for owner in {owner for owner, _ in seen["evictions"]}:
        gone, back = (sum(count for (each, _), count in seen[what].items() if each == owner) for what in ("evictions", "Bindings"))
        evictions = posed.document.evictions if isinstance(posed.document, RebalancePlan) else []
        for_good = sum(_owner_of(posed, entry.pod) == owner for entry in evictions)
        if gone > back + for_good + pending[owner]:
            found.append(f"{gone} pods of {owner} are gone and {back} have a node again")
    steps = posed.document.assignments if isinstance(posed.document, Placement) else posed.document.moves
    bound = {one.key for one in posed.world.bound() if _is_ours(one)}
    for gang in {step.gang for step in steps if step.gang is not None}:
        members = {step.pod for step in steps if step.gang == gang and _was_pending(posed, step.pod)}
        if 0 < len(members & bound) < len(members):
            found.append(f"gang {gang} has {len(members & bound)} of {len(members)} pods on nodes")
    return found


def _wanted(posed: Posed) -> dict[str, Counter[tuple[str, str]]]:
    """Return the numbers of pods of each controller that are to leave each node, and to be bound to each."""
    document = posed.document
    if isinstance(document, Placement):
        bound = [(entry.pod, entry.node) for entry in document.assignments if _was_pending(posed, entry.pod)]
        evicted = []
    else:
        bound = [(entry.pod, entry.to) for entry in document.moves]
        evicted = [(entry.pod, entry.source) for entry in document.moves if entry.source is not None]
        evicted += [(entry.pod, entry.source) for entry in document.evictions]
    return {
        "evictions": Counter((_owner_of(posed, pod), node) for pod, node in evicted),
        "Bindings": Counter((_owner_of(posed, pod), node) for pod, node in bound),
    }


def _seen(posed: Posed) -> dict[str, Counter[tuple[str, str]]]:
    ours = [one for one in posed.world.log if _is_ours(one)]
    return {
        "evictions": Counter((_owner(one.key, one.obj or {}), one.node) for one in ours if one.verb == "evict"),
        "Bindings": Counter((_owner(one.key, one.obj or {}), one.node) for one in ours if one.verb == "bind"),
    }


def _is_ours(entry: Entry) -> bool:
    if entry.kind != "Pod" or entry.verb not in ("evict", "bind"):
        return False
    return entry.actor == "client" or (entry.actor == "scheduler" and _is_let_in(entry.obj or {"spec": {}}))


def _start(posed: Posed, key: str) -> Object:
    namespace, _, name = key.partition("/")
    return next(
        one for one in posed.start if one["kind"] == "Pod" and (one["metadata"]["namespace"], one["metadata"]["name"]) == (namespace, name)
    )


def _was_pending(posed: Posed, key: str) -> bool:
    return not _start(posed, key)["spec"].get("nodeName")


def _owner_of(posed: Posed, key: str) -> str:
    return _owner(key, _start(posed, key))


def _owner(key: str, pod: Object) -> str:
    """Return the owner that recreates this pod: its controller, or its name."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(each["uid"]) for each in owners if each.get("controller")), key)
