"""Changes of a Placement, each of which makes a claim false.

Most change what has one true value: the original is true, so anything else is false. :mod:`tests.plans.cluster` checks that a pod
could be on another node. It uses only the rules that get tighter with each pod, so the order of binding does not matter. A change that
does not apply to a document, or that might still be true, gives None. Bounds, free texts, facts of causes and the best of a family are
left alone: no placement proves or disproves them (``notChecked`` says so).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from kubestow.checker.claims.reasons import JUDGED
from kubestow.checker.objective.families import named
from tests.checker.mutations.originals import Document, Original

#: Changes a document in place, and returns the claim that is false now.
Mutation = Callable[[Random, Document, Original], str | None]
MUTATIONS: Final[list[Mutation]] = []


def _mutation(function: Mutation) -> Mutation:
    MUTATIONS.append(function)
    return function


def _other(rng: Random, value: int) -> int:
    return value + rng.choice((-3, -1, 1, 2, 100))


def _pick(rng: Random, entries: list[Any] | None) -> Any:
    return rng.choice(entries) if entries else None


def _change(rng: Random, entry: Document | None, *fields: str) -> str | None:
    """A number that has one true value."""
    if entry is None:
        return None
    field = rng.choice(fields)
    entry[field] = _other(rng, entry.get(field, 0))
    return field


# --- the document -------------------------------------------------------------------------------------------------------


@_mutation
def snapshot_numbers(rng: Random, doc: Document, _: Original) -> str | None:
    return _change(rng, doc["snapshot"], "nodes", "pods", "pending")


@_mutation
def snapshot_hash(rng: Random, doc: Document, _: Original) -> str | None:
    doc["snapshot"]["sha256"] = rng.choice(("", "0" * 64, doc["snapshot"]["sha256"][:-1]))
    return "the snapshot's hash"


@_mutation
def engine(rng: Random, doc: Document, _: Original) -> str | None:
    doc["engine"] = rng.choice(("Exact", "", "magic"))
    return "there is such an engine"


@_mutation
def status(rng: Random, doc: Document, _: Original) -> str | None:
    told = {"optimal": ("feasible", "unknown", "infeasible"), "feasible": ("optimal", "infeasible"), "infeasible": ("feasible", "unknown")}
    closed = all(tier["bound"] == tier["value"] for tier in doc["objective"])
    if doc["status"] not in told or (doc["status"] == "optimal" and not closed) or (doc["status"] == "feasible" and not doc["assignments"]):
        return None
    doc["status"] = rng.choice(told[doc["status"]])
    return "the status"


@_mutation
def exemptions(rng: Random, doc: Document, _: Original) -> str | None:
    doc["snapshot"]["daemonNamespaces"] = [*doc["snapshot"].get("daemonNamespaces", ()), rng.choice(("default", "kube-system"))]
    return "nobody is exempt beyond those of the original"


@_mutation
def edits(rng: Random, doc: Document, original: Original) -> str | None:
    name = rng.choice(original.snapshot.nodes).metadata.name
    kind, value = rng.choice((("addNodes", f"1:{name}"), ("removeNodes", name)))
    doc["snapshot"]["edits"] = {kind: [value]}
    return "the snapshot is not edited"


@_mutation
def scope(rng: Random, doc: Document, _: Original) -> str | None:
    field = rng.choice(("fromScratch", "includeGated"))
    doc["snapshot"][field] = not doc["snapshot"].get(field, False)
    return "what is to be placed"


@_mutation
def policy(rng: Random, doc: Document, _: Original) -> str | None:
    families = [each for each in (doc.get("preferences") or {}).get("families", ()) if each["value"]]
    if not families:
        return None
    family = rng.choice(families)
    family["multiplier"] += 1
    doc.setdefault("policy", {}).setdefault("multipliers", {})[family["family"]] = family["multiplier"]
    return "the tier soft under the policy"


@_mutation
def unmodelled(rng: Random, doc: Document, _: Original) -> str | None:
    if doc["unmodelled"] and rng.random() < 0.7:
        del doc["unmodelled"][rng.randrange(len(doc["unmodelled"]))]
        return "all that is not modelled is told"
    doc["unmodelled"].append({"pod": "default/nobody", "field": "spec", "effect": "ignored"})
    return "the pod is there"


# --- tiers --------------------------------------------------------------------------------------------------------------


@_mutation
def tier_value(rng: Random, doc: Document, _: Original) -> str | None:
    tier = _pick(rng, doc["objective"])
    if tier is None:
        return None
    value = _other(rng, tier["value"])
    tier["value"], tier["bound"] = value, rng.choice((max(value, tier["bound"]), value))
    return f"the value of tier {tier['tier']}"


@_mutation
def tier_bound(rng: Random, doc: Document, _: Original) -> str | None:
    tier = _pick(rng, doc["objective"])
    if tier is None:
        return None
    tier["bound"] = tier["value"] - rng.choice((1, 5))
    return "no placement exceeds the bound"


@_mutation
def tiers(rng: Random, doc: Document, _: Original) -> str | None:
    placed = [tier for tier in doc["objective"] if tier["tier"] == "placed"]
    if not placed:
        return None
    what = rng.choice(("dropped", "twice", "unknown", "priority"))
    if what == "dropped":
        doc["objective"].remove(rng.choice(placed))
    elif what == "twice":
        doc["objective"].insert(0, dict(rng.choice(placed)))
    elif what == "unknown":
        doc["objective"].append({"tier": "luck", "value": 1, "bound": 1})
    else:
        rng.choice(placed)["priority"] += 1
    return "which tiers there are"


# --- assignments --------------------------------------------------------------------------------------------------------


@_mutation
def assignment_dropped(rng: Random, doc: Document, _: Original) -> str | None:
    if not doc["assignments"]:
        return None
    del doc["assignments"][rng.randrange(len(doc["assignments"]))]
    return "all pods that wait are told of"


@_mutation
def assignment_twice(rng: Random, doc: Document, _: Original) -> str | None:
    entry = _pick(rng, doc["assignments"])
    if entry is None:
        return None
    last = max(each["order"] for each in doc["assignments"])
    doc["assignments"].append({**entry, "order": rng.choice((entry["order"], last + 1))})
    return "each pod once"


@_mutation
def assignment_unknown(rng: Random, doc: Document, original: Original) -> str | None:
    entry = _pick(rng, doc["assignments"])
    if entry is None:
        return None
    bound = [f"{p.metadata.namespace}/{p.metadata.name}" for p in original.snapshot.pods if p.spec.nodeName]
    if rng.random() < 0.5:
        entry["node"] = rng.choice(("nowhere", ""))
    else:
        entry["pod"] = rng.choice(("default/nobody", "", *(() if doc["snapshot"].get("fromScratch") else bound[:1])))
    return "the pod, or the node, is there and is to be placed"


@_mutation
def assignment_moved(rng: Random, doc: Document, original: Original) -> str | None:
    """Move a pod to a node that rejects it next to all others, in any order; two pods may change places."""
    world, entries = original.world, doc["assignments"]
    if world is None or not entries:
        return None
    place = {pod.key: index for index, pod in enumerate(world.pods)}
    if any(entry["pod"] not in place or entry["node"] not in world.names for entry in entries):
        return None  # something else was changed before
    moved = rng.sample(entries, 2) if len(entries) > 1 and rng.random() < 0.4 else [rng.choice(entries)]
    if len(moved) == 2:
        moved[0]["node"], moved[1]["node"] = moved[1]["node"], moved[0]["node"]
    else:
        moved[0]["node"] = rng.choice(world.names)
    homes = [pod.home for pod in world.pods]
    for entry in entries:
        homes[place[entry["pod"]]] = world.names.index(entry["node"])
    for entry in entries:
        index, node = place[entry["pod"]], world.names.index(entry["node"])
        broken = world.dynamic(index, node, tuple(homes)) & {"NodePorts", "NodeResourcesFit", "InterPodAffinity"}
        if broken | world.pods[index].static[node]:
            return f"{entry['pod']} passes {broken or 'every filter'} on {entry['node']}"
    return None


@_mutation
def order(rng: Random, doc: Document, _: Original) -> str | None:
    entry = _pick(rng, doc["assignments"])
    if entry is None:
        return None
    others = [each for each in doc["assignments"] if each is not entry and (each["gang"] is None or each["gang"] != entry["gang"])]
    what = rng.choice(("gap", "below", "shared"))
    if what == "gap":
        entry["order"] = max(each["order"] for each in doc["assignments"]) + rng.choice((2, 1000))
    elif what == "below":
        entry["order"] = rng.choice((0, -1))
    elif others:
        entry["order"] = rng.choice(others)["order"]
    else:
        return None
    return "a bind order from 1 without gaps, shared within a gang only"


@_mutation
def zones(rng: Random, doc: Document, _: Original) -> str | None:
    entry = _pick(rng, [zoned for each in doc["assignments"] for zoned in each["containers"]])
    if entry is None:
        return None
    if rng.random() < 0.5:
        entry["zones"] = ["node-99"]
    else:
        entry["name"] = "nobody"
    return "the container and its zones are there"


@_mutation
def pod_hidden(rng: Random, doc: Document, _: Original) -> str | None:
    """Said to be left, with a proof that no more can be placed: the original places one more."""
    single = [each for each in doc["assignments"] if each["gang"] is None]
    placed = [tier for tier in doc["objective"] if tier["tier"] == "placed"]
    if not single or len(placed) != 1 or doc["snapshot"].get("fromScratch") or len(doc["assignments"]) < 2:
        return None
    last = max(doc["assignments"], key=lambda each: int(each["order"]))
    if last["gang"] is not None:
        return None
    doc["assignments"].remove(last)
    reason = {"rule": "NodeResourcesFit", "nodes": doc["snapshot"]["nodes"], "message": ""}
    doc["unplaced"].append({"pod": last["pod"], "reasons": [reason]})
    placed[0]["value"] -= 1
    placed[0]["bound"] = placed[0]["value"]
    doc["objective"], doc["status"] = placed, "optimal"
    doc.pop("preferences", None)
    return "no more pods can be placed, and the reason"


@_mutation
def pod_forced(rng: Random, doc: Document, original: Original) -> str | None:
    """One more pod is placed than the original proves to be possible."""
    left = [each for each in doc["unplaced"] if each.get("gang") is None and all(r["rule"] in JUDGED for r in each["reasons"])]
    priorities = {pod.spec.priority or 0 for pod in original.snapshot.pods}
    proved = all(tier["bound"] == tier["value"] for tier in doc["objective"] if tier["tier"] == "placed")
    if not left or not proved or len(priorities) > 1:
        return None
    entry = rng.choice(left)
    doc["unplaced"].remove(entry)
    doc["causes"] = []
    last = max((each["order"] for each in doc["assignments"]), default=0)
    node = rng.choice(original.snapshot.nodes).metadata.name
    doc["assignments"].append({"pod": entry["pod"], "node": node, "order": last + 1, "gang": None, "containers": []})
    for tier in doc["objective"]:
        if tier["tier"] == "placed":
            tier["value"], tier["bound"] = tier["value"] + 1, tier["bound"] + 1
    return "the node takes the pod"


# --- gangs --------------------------------------------------------------------------------------------------------------


@_mutation
def gang_of_pod(rng: Random, doc: Document, _: Original) -> str | None:
    entry = _pick(rng, [*doc["assignments"], *doc["unplaced"]])
    if entry is None or any(reason["rule"] == "SchedulingGates" for reason in entry.get("reasons", ())):
        return None
    entry["gang"] = "default/strangers" if entry.get("gang") is None or rng.random() < 0.5 else None
    return "the gang of the pod"


@_mutation
def gang_numbers(rng: Random, doc: Document, _: Original) -> str | None:
    return _change(rng, _pick(rng, doc["gangs"]), "pending", "placed", "needed", "bound")


@_mutation
def gangs(rng: Random, doc: Document, _: Original) -> str | None:
    if not doc["gangs"]:
        return None
    what = rng.choice(("dropped", "twice", "renamed", "domain"))
    entry = rng.choice(doc["gangs"])
    if what == "dropped":
        doc["gangs"].remove(entry)
    elif what == "twice":
        doc["gangs"].append(dict(entry))
    elif what == "renamed":
        entry["gang"] += "-b"
    else:
        entry["topologyKey"], entry["domain"] = "planet", "earth"
    return "the gangs"


# --- pods that are left -------------------------------------------------------------------------------------------------


def _judged(doc: Document) -> list[Document]:
    return [each for each in doc["unplaced"] if any(reason["rule"] in JUDGED for reason in each["reasons"])]


@_mutation
def reason_number(rng: Random, doc: Document, _: Original) -> str | None:
    entry = _pick(rng, _judged(doc))
    if entry is None:
        return None
    return _change(rng, rng.choice([reason for reason in entry["reasons"] if reason["rule"] in JUDGED]), "nodes")


@_mutation
def reason_list(rng: Random, doc: Document, _: Original) -> str | None:
    entry = _pick(rng, _judged(doc))
    if entry is None:
        return None
    reasons = entry["reasons"]
    reason = rng.choice([each for each in reasons if each["rule"] in JUDGED])
    what = rng.choice(("dropped", "none", "added", "renamed", "gated", "made up"))
    free = sorted(JUDGED - {each["rule"] for each in reasons})
    if what == "dropped":
        reasons.remove(reason)
    elif what == "none":
        reasons.clear()
    elif what == "added":
        reasons.append({"rule": rng.choice(free), "nodes": 1, "message": ""})
    elif what == "renamed":
        reason["rule"] = rng.choice(free)
    else:
        reason["rule"] = "SchedulingGates" if what == "gated" else "BadLuck"
    return "the rules that reject the pod"


@_mutation
def left_list(rng: Random, doc: Document, _: Original) -> str | None:
    entry = _pick(rng, doc["unplaced"])
    if entry is None:
        return None
    if rng.random() < 0.5 and not any(reason["rule"] == "SchedulingGates" for reason in entry["reasons"]):
        doc["unplaced"].remove(entry)
    else:
        doc["unplaced"].append(dict(entry))
    return "each pod that waits once"


@_mutation
def causes(rng: Random, doc: Document, _: Original) -> str | None:
    cause = _pick(rng, doc["causes"])
    if cause is None:
        return None
    what = rng.choice(("placed", "nobody", "unknown", "rule", "gang", "together", "facts"))
    if what == "placed" and doc["assignments"]:
        cause["pods"].append(rng.choice(doc["assignments"])["pod"])
    elif what == "nobody":
        cause["pods"] = []
    elif what == "rule" and cause["facts"]:
        rng.choice(cause["facts"])["rule"] = "BadLuck"
    elif what == "gang":
        cause["gang"] = "default/strangers"
    elif what == "together" and cause.get("gang") is None:
        cause["together"] = rng.choice((0, len(cause["pods"]) + 1))
    elif what == "facts" and cause["facts"]:
        rng.choice(cause["facts"])["object"] = rng.choice(("Pod default/nobody", "Node nowhere"))
    else:
        cause["pods"].append("default/nobody")
    return "whom a cause speaks of"


# --- preferences --------------------------------------------------------------------------------------------------------


def _preferences(doc: Document, part: str) -> list[Document]:
    found: list[Document] = (doc.get("preferences") or {}).get(part, [])
    return found


@_mutation
def family(rng: Random, doc: Document, _: Original) -> str | None:
    entry = _pick(rng, _preferences(doc, "families"))
    if entry is None:
        return None
    what = rng.choice(("value", "multiplier", "best", "name", "twice", "dropped"))
    if what == "best":
        entry["best"] = entry["value"] - 1
    elif what == "name":
        entry["family"] = "luck"
    elif what == "twice":
        doc["preferences"]["families"].append(dict(entry))
    elif what == "dropped":
        if not entry["value"]:
            return None
        doc["preferences"]["families"].remove(entry)
    else:
        entry[what] += rng.choice((-1, 1, 7))
    return "the families"


@_mutation
def workload_row(rng: Random, doc: Document, _: Original) -> str | None:
    rows = _preferences(doc, "workloads")
    if not rows:
        return None
    row = rng.choice(rows)
    hinted = any(each["family"] == "containerAffinity" for each in _preferences(doc, "families"))
    what = rng.choice(("number", "swapped", "dropped", "name"))
    others = [each for each in rows if each["value"] != row["value"]]
    if what == "swapped" and others and not hinted:
        other = rng.choice(others)
        row["value"], other["value"] = other["value"], row["value"]
    elif what == "dropped" and (row["value"] or row.get("lost")):
        rows.remove(row)
    elif what == "name" and (row["value"] or row.get("lost")) and not hinted:
        row["workload"] = "Deployment default/nobody"
    else:
        return _change(rng, row, "value", "lost")
    return "what the workload gains and loses"


@_mutation
def unmet(rng: Random, doc: Document, _: Original) -> str | None:
    listed = _preferences(doc, "unmet")
    entries = [each for each in listed if each["family"] in named("each")]
    if not entries:
        if doc.get("preferences"):
            row = {"workload": "Pod default/nobody", "family": "taints", "preference": "none", "pods": 1, "lost": 1}
            doc["preferences"]["unmet"].append(row)
            return "nothing else is unmet"
        return None
    entry = rng.choice(entries)
    what = rng.choice(("lost", "pods", "dropped", "twice", "family", "workload"))
    if what == "dropped":
        listed.remove(entry)
    elif what == "twice":
        listed.append(dict(entry))
    elif what in ("family", "workload"):
        entry[what] = {"family": "luck", "workload": "Deployment default/nobody"}[what]
    else:
        return _change(rng, entry, what)
    return "what is not met"
