"""Changes of a RebalancePlan, each of which makes a claim false; see :mod:`tests.checker.mutations.placements`."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tests.checker.mutations.originals import Document, Original
from tests.checker.mutations.placements import Mutation, _change, _other, _pick, exemptions, snapshot_hash, snapshot_numbers

MUTATIONS: Final[list[Mutation]] = [exemptions, snapshot_hash, snapshot_numbers]


def _mutation(function: Mutation) -> Mutation:
    MUTATIONS.append(function)
    return function


def _final(doc: Document) -> list[Document]:
    """Moves after which the pod stays where it is."""
    return [move for move in doc["moves"] if not move.get("stopover")]


# --- the document -------------------------------------------------------------------------------------------------------


@_mutation
def head(rng: Random, doc: Document, _: Original) -> str | None:
    field = rng.choice(("engine", "goals", "drain", "scratch", "status"))
    if field == "engine":
        doc["engine"] = "magic"
    elif field == "goals":
        doc["goals"].append(rng.choice(("peace", *doc["goals"])))
    elif field == "drain":
        doc["drain"].append(rng.choice(("nowhere", *doc["drain"])))
    elif field == "scratch":
        doc["snapshot"]["fromScratch"] = True
    else:
        doc["status"] = "feasible" if doc["status"] == "optimal" else "optimal"
    return field


@_mutation
def limits(rng: Random, doc: Document, _: Original) -> str | None:
    moves = [move for move in doc["moves"] if move["from"] is not None]
    if doc["evictions"] and rng.random() < 0.6:
        kind = rng.choice(("allowEviction", "maxEvictions"))
        doc["limits"][kind] = False if kind == "allowEviction" else len(doc["evictions"]) - 1
    elif moves:
        waves = max(step["wave"] for step in (*doc["moves"], *doc["evictions"]))
        kind = rng.choice(("maxMoves", "maxWaves", "leastWaves"))
        if kind == "leastWaves":
            doc[kind] = waves + rng.choice((1, 9))
            return "the least number of waves"
        doc["limits"][kind] = (len(moves) if kind == "maxMoves" else waves) - 1
    else:
        return None
    return "the limits are kept"


@_mutation
def tier(rng: Random, doc: Document, _: Original) -> str | None:
    entry = _pick(rng, doc["objective"])
    what = rng.choice(("value", "value", "bound", "dropped", "twice", "unknown", "order"))
    if what == "value":
        value = _other(rng, entry["value"])
        entry["value"], entry["bound"] = value, max(value, entry["bound"])
    elif what == "bound":
        entry["bound"] = entry["value"] - 1
    elif what == "dropped":
        doc["objective"].remove(entry)
    elif what == "twice":
        doc["objective"].append(dict(entry))
    elif what == "unknown" or len(doc["objective"]) < 2:
        entry["tier"] = "luck"
    else:
        doc["objective"].reverse()
    return "the tiers"


@_mutation
def policy(rng: Random, doc: Document, _: Original) -> str | None:
    families = [family for family in doc["after"].get("preferences", ()) if family["value"]]
    if not families:
        return None
    name = rng.choice(families)["family"]
    doc.setdefault("policy", {}).setdefault("multipliers", {})[name] = 7
    return "the preferences under the policy"


# --- steps --------------------------------------------------------------------------------------------------------------


@_mutation
def move_dropped(rng: Random, doc: Document, _: Original) -> str | None:
    """Renumber the steps, so that the old or new node holds another number of pods than ``after`` says."""
    single = [move for move in _final(doc) if [m["pod"] for m in doc["moves"]].count(move["pod"]) == 1]
    if not single:
        return None
    gone = rng.choice(single)
    alone = not any(each is not gone and each["step"] == gone["step"] for each in doc["moves"])
    doc["moves"].remove(gone)
    for each in (*doc["moves"], *doc["evictions"]):
        each["step"] -= alone and each["step"] > gone["step"]
    return "the nodes in the end"


@_mutation
def move_twice(rng: Random, doc: Document, _: Original) -> str | None:
    move = _pick(rng, doc["moves"])
    if move is None:
        return None
    doc["moves"].append({**move, "step": rng.choice((move["step"], max(each["step"] for each in doc["moves"]) + 1))})
    return "the pod moves once"


@_mutation
def move_elsewhere(rng: Random, doc: Document, original: Original) -> str | None:
    """To another node than the summary counts it on, to none, or from where it is not."""
    move = _pick(rng, _final(doc))
    if move is None:
        return None
    names = [str(node.metadata.name) for node in original.snapshot.nodes if node.metadata.name not in (move["to"], move["from"])]
    field = rng.choice(("to", "from"))
    move[field] = rng.choice(("nowhere", move["from"] or move["to"], *names) if field == "to" else ("nowhere", move["to"], *names))
    return "where the pod comes from and goes to"


@_mutation
def numbering(rng: Random, doc: Document, _: Original) -> str | None:
    listed: list[Any] = [*doc["moves"], *doc["evictions"]]
    last = max(listed, key=lambda each: int(each["step"]))
    first = min(listed, key=lambda each: int(each["step"]))
    what = rng.choice(("step", "wave", "zero", "late"))
    if what == "step":
        last["step"] += rng.choice((1, 10))
    elif what == "wave":
        last["wave"] += rng.choice((2, 10))
    elif what == "zero":
        first["step"] = 0
    else:
        first["wave"] = last["wave"] + 2
    shared = sum(each["step"] == last["step"] for each in listed) > 1 or sum(each["step"] == first["step"] for each in listed) > 1
    return None if shared and what in ("step", "zero") else "steps and waves from 1, without gaps, in one order"


@_mutation
def step_kind(rng: Random, doc: Document, _: Original) -> str | None:
    move = _pick(rng, doc["moves"])
    if move is None:
        return None
    if rng.random() < 0.5:
        move["stopover"] = not move.get("stopover", False)
    else:
        move["gang"] = "default/strangers"
    return "whether it is a stopover, and of which gang"


@_mutation
def eviction(rng: Random, doc: Document, original: Original) -> str | None:
    if doc["evictions"] and rng.random() < 0.5:
        del doc["evictions"][rng.randrange(len(doc["evictions"]))]
        return "the nodes in the end"
    running = [pod for pod in original.snapshot.pods if pod.spec.nodeName]
    if not running:
        return None
    pod = rng.choice(running)
    last = max(each["step"] for each in (*doc["moves"], *doc["evictions"]))
    wave = max(each["wave"] for each in (*doc["moves"], *doc["evictions"])) + 1
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    doc["evictions"].append({"step": last + 1, "wave": wave, "pod": key, "from": pod.spec.nodeName, "reason": ""})
    return "how many pods wait in the end"


# --- summaries ----------------------------------------------------------------------------------------------------------


@_mutation
def summary(rng: Random, doc: Document, _: Original) -> str | None:
    part = doc[rng.choice(("before", "after"))]
    what = rng.choice(("number", "node", "rules", "family", "balance"))
    if what == "node" and part.get("nodes"):
        return _change(rng, rng.choice(part["nodes"]), "pods", "cpu", "cpuAllocatable", "memory", "memoryAllocatable")
    if what == "rules":
        rules = part.setdefault("rules", {})
        rule = rng.choice(("NodeAffinity", "InterPodAffinity", *rules))
        rules[rule] = rules.get(rule, 0) + rng.choice((1, 3))
        return "how many pods break a rule"
    if what == "family" and part.get("preferences"):
        return _change(rng, rng.choice(part["preferences"]), "value", "multiplier")
    if what == "balance" and part.get("balance") is not None:
        return _change(rng, part, "balance")
    return _change(rng, part, "emptyNodes", "pending")


@_mutation
def node_left_out(rng: Random, doc: Document, _: Original) -> str | None:
    part = doc[rng.choice(("before", "after"))]
    if not part.get("nodes"):
        return None
    del part["nodes"][rng.randrange(len(part["nodes"]))]
    return "all nodes whose pods change"


@_mutation
def freed(rng: Random, doc: Document, original: Original) -> str | None:
    if doc["freed"] and rng.random() < 0.5:
        doc["freed"].pop()
    else:
        names = [node.metadata.name for node in original.snapshot.nodes if node.metadata.name not in doc["freed"]]
        doc["freed"].append(rng.choice((*names, "nowhere")))
    return "the nodes that are freed"


@_mutation
def excluded(rng: Random, doc: Document, original: Original) -> str | None:
    told = {key: group["reason"] for group in doc["excluded"] for key in group["pods"]}
    what = rng.choice(("dropped", "reason", "added"))
    if what == "added" or not told:
        free = [p for p in original.snapshot.pods if p.spec.nodeName and f"{p.metadata.namespace}/{p.metadata.name}" not in told]
        if not free:
            return None
        pod = rng.choice(free).metadata
        doc["excluded"].append({"reason": "budgets", "pods": [f"{pod.namespace}/{pod.name}"]})
    elif what == "dropped":
        rng.choice([group for group in doc["excluded"] if group["pods"]])["pods"].pop()
    else:
        group = rng.choice([group for group in doc["excluded"] if group["pods"]])
        group["reason"] = rng.choice([reason for reason in ("mirror", "daemonset", "owner", "bare") if reason != group["reason"]])
    return "which pods may not move, and why"


@_mutation
def obstacles(rng: Random, doc: Document, original: Original) -> str | None:
    entry = _pick(rng, [each for each in doc["obstacles"] if each.get("pod")])
    what = rng.choice(("dropped", "unknown", "goal", "node", "made up"))
    if entry is None or what == "made up":
        moved = [move for move in _final(doc) if move["from"] in doc["drain"] and move["to"] not in doc["drain"]]
        if not moved or "drain" not in doc["goals"]:
            return None
        move = rng.choice(moved)
        doc["obstacles"].append({"goal": "drain", "message": "", "pod": move["pod"], "node": move["from"]})
    elif what == "dropped":
        doc["obstacles"] = [each for each in doc["obstacles"] if each.get("pod") != entry["pod"]]
    elif what == "unknown":
        entry["pod"] = "default/nobody"
    elif what == "goal":
        entry["goal"] = "peace"
    else:
        entry["node"] = rng.choice([n.metadata.name for n in original.snapshot.nodes if n.metadata.name != entry.get("node")])
    return "what the goals leave undone"
