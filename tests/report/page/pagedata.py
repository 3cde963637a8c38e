"""Random documents in the form that the report page reads, for tests of the page alone: made of nothing but a seed, so that the
largest page costs no solver."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Document = dict[str, Any]

GIB = 1 << 30
KINDS = ("Deployment", "StatefulSet", "DaemonSet")
WORDS = ("web", "api", "db", "cache", "queue", "search", "mail", "auth", "batch", "metrics", "ledger", "cart")
RULES = (
    ("InterPodAffinity", "never on a node with pods of app=db"),
    ("PodTopologySpread", "at most 1 apart over zones"),
    ("NodeAffinity", "only where disk=ssd"),
)


def blank(nodes: int = 0) -> Document:
    """Make a document with ``nodes`` empty nodes only."""
    return {
        "version": "0.1.0",
        "title": f"Snapshot of {nodes} nodes, 0 pods",
        "kind": "Snapshot",
        "snapshot": {"sha256": "0" * 64, "nodes": nodes, "pods": 0, "pending": 0, "origin": ""},
        "summary": {
            "status": None,
            "statusWords": [],
            "engine": None,
            "seconds": None,
            "tiers": [],
            "facts": [["Nodes", str(nodes)]],
            "notes": [],
            "unmodelled": [],
            "violations": [],
        },
        "views": ["now"],
        "zones": [],
        "nodes": {
            "name": [f"worker-{n:03}" for n in range(nodes)],
            "zone": [-1] * nodes,
            "cpu": [8000] * nodes,
            "memory": [32 * GIB] * nodes,
            "pods": [110] * nodes,
            "flags": [0] * nodes,
            "taints": [[] for _ in range(nodes)],
            "labels": [[] for _ in range(nodes)],
            "numa": {},
        },
        "workloads": [],
        "priorities": [0],
        "shapes": [],
        "pods": {"name": [], "workload": [], "shape": [], "priority": [], "place": [[]], "zones": {}, "recreated": {}, "state": []},
        "usage": [{"cpu": [0] * nodes, "memory": [0] * nodes, "pods": [0] * nodes}],
        "waves": [],
        "obstacles": [],
        "unplaced": [],
        "audit": None,
        "preferences": None,
        "search": [],
        "rulesBroken": None,
    }


def cluster(random: Random, nodes: int, pods: int, zones: int = 3) -> Document:
    """A snapshot: ``pods`` on ``nodes`` in ``zones``, the first node with two NUMA zones, some nodes with flags and taints."""
    made = blank(nodes)
    made["title"] = f"Snapshot of {nodes:,} nodes, {pods:,} pods"
    made["snapshot"] |= {"sha256": f"{random.getrandbits(256):064x}", "pods": pods}
    made["zones"] = [{"name": f"zone-{'abcdefgh'[z]}", "key": "topology.kubernetes.io/zone"} for z in range(zones)]
    columns = made["nodes"]
    columns["zone"] = sorted(n % zones for n in range(nodes)) if zones else [-1] * nodes
    columns["cpu"] = [random.choice((4000, 8000, 16000)) for _ in range(nodes)]
    columns["memory"] = [cpu // 1000 * 4 * GIB for cpu in columns["cpu"]]
    columns["flags"] = [random.choice((0,) * 12 + (1, 2)) for _ in range(nodes)]
    columns["taints"] = [["dedicated=batch:NoSchedule"] if flags & 2 else [] for flags in columns["flags"]]
    columns["labels"] = [[f"kubernetes.io/hostname={name}", "disk=ssd"] for name in columns["name"]]
    if nodes:
        columns["numa"] = {
            "0": [{"name": f"node-{z}", "resources": {"cpu": str(columns["cpu"][0] // 2000), "memory": "8Gi"}} for z in range(2)]
        }
    count = max(3, min(60, pods // 12))
    made["workloads"] = [
        {"name": f"{random.choice(KINDS)} {random.choice(('shop', 'core'))}/{random.choice(WORDS)}-{w}", "namespace": "shop", "pods": 0}
        for w in range(count)
    ]
    made["priorities"] = [0, 1000, 100_000, 2_000_000_000]
    made["shapes"] = [shape(random, count) for _ in range(min(80, 2 * count))]
    people = made["pods"]
    free = list(columns["cpu"])
    for p in range(pods):
        w = random.randrange(count)
        made["workloads"][w]["pods"] += 1
        people["name"].append(f"{made['workloads'][w]['name'].split()[1]}-{random.getrandbits(20):05x}-{p}")
        people["workload"].append(w)
        people["shape"].append(random.randrange(len(made["shapes"])))
        people["priority"].append(min(3, int(random.expovariate(2))))
        n = random.randrange(nodes)
        cpu = made["shapes"][people["shape"][p]]["cpu"]
        for _ in range(20):
            if free[n] >= cpu:
                break
            n = random.randrange(nodes)
        free[n] -= cpu
        people["place"][0].append(n)
        people["state"].append(0)
        if n == 0 and p % 3:
            people["zones"][str(p)] = [["app", [f"node-{p % 2}"]]]
    made["usage"] = [usage(made, people["place"][0])]
    made["summary"]["facts"] += [["Pods running", f"{pods:,}"], ["Pending", "0"], ["CPU requested", "61%"], ["Memory requested", "48%"]]
    return made


def shape(random: Random, workloads: int) -> Document:
    """Requests of one kind of pod, its containers and its rules."""
    cpu = random.choice((0, 10, 50, 100, 100, 250, 500, 500, 1000, 2000))
    memory = random.choice((64, 128, 256, 512, 1024, 2048)) * (1 << 20)
    rules = [{"rule": rule, "text": text, "workloads": [random.randrange(workloads)]} for rule, text in RULES if random.random() < 0.4]
    containers = [{"name": "app", "cpu": f"{cpu}m", "memory": f"{memory >> 20}Mi", "init": False}]
    if random.random() < 0.3:
        containers.append({"name": "migrate", "cpu": "10m", "memory": "32Mi", "init": True})
    return {"cpu": cpu, "memory": memory, "containers": containers, "rules": rules}


def usage(made: Document, place: list[int]) -> Document:
    """Return the requests of the pods on each node when they are at ``place``."""
    nodes = len(made["nodes"]["name"])
    found: Document = {"cpu": [0] * nodes, "memory": [0] * nodes, "pods": [0] * nodes}
    for p, n in enumerate(place):
        if n >= 0:
            wanted = made["shapes"][made["pods"]["shape"][p]]
            found["cpu"][n] += wanted["cpu"]
            found["memory"][n] += wanted["memory"]
            found["pods"][n] += 1
    return found


def plan(random: Random, nodes: int, pods: int, waves: int, moves: int = 4) -> Document:
    """A plan: ``moves`` random moves a wave, an eviction and a stopover among them."""
    made = cluster(random, nodes, pods)
    people = made["pods"]
    place = list(people["place"][0])
    for wave in range(1, waves + 1):
        steps: list[Document] = []
        for p in random.sample(range(pods), min(pods, moves)):
            if place[p] < 0:
                continue
            evict = wave == 2 and not steps
            to = -1 if evict else random.randrange(nodes)
            reason = "goes for good" if evict else random.choice(("frees its node", "mends InterPodAffinity", "makes room for shop/db-0"))
            steps.append(
                {"pod": p, "from": place[p], "to": to, "reason": reason, "evict": evict, "stopover": wave == 1 and len(steps) == 1}
            )
            place[p] = to
            people["state"][p] = 3 if evict else 2
        made["waves"].append({"wave": wave, "steps": steps})
    made |= {
        "kind": "RebalancePlan",
        "title": f"Rebalancing plan: {sum(len(w['steps']) for w in made['waves'])} moves",
        "views": ["before", "after"],
    }
    people["place"].append(place)
    made["usage"].append(usage(made, place))
    empty = [n for n, count in enumerate(made["usage"][1]["pods"]) if not count]
    for n in empty:
        made["nodes"]["flags"][n] |= 4
    result(random, made)
    for family in made["preferences"]["families"]:
        family["before"] = family.pop("best") - 10
    made["preferences"] |= {"workloads": [], "unmet": []}
    made["summary"]["facts"] += [["Moves", "17"], ["Waves", str(waves)], ["Nodes freed", str(len(empty))]]
    made["obstacles"] = [
        {
            "goal": "consolidate",
            "message": "the budget shop/db allows no disruption",
            "proved": True,
            "about": people["name"][0] if pods else "",
        }
    ]
    made["rulesBroken"] = {"before": {"InterPodAffinity": 2, "PodTopologySpread": 1}, "after": {}}
    return made


def placement(random: Random, nodes: int, pods: int, waiting: int) -> Document:
    """Make a placement: the last quarter of the pods are new, and ``waiting`` pods have no node."""
    made = cluster(random, nodes, pods)
    people = made["pods"]
    after = list(people["place"][0])
    for p in range(pods * 3 // 4, pods):
        people["place"][0][p] = -1
        people["state"][p] = 6 if p % 3 == 0 else 1
    for p in range(pods - waiting, pods):
        after[p] = -1
        people["state"][p] = 4
    people["place"].append(after)
    made |= {"kind": "Placement", "title": f"Placement of {pods - pods * 3 // 4} pods", "views": ["before", "after"]}
    made["usage"] = [usage(made, place) for place in people["place"]]
    result(random, made)
    names = people["name"][pods - waiting :]
    if waiting:
        made["unplaced"] = [unplaced(names[:1]), unplaced(names[1:], gang="shop/training")] if waiting > 1 else [unplaced(names)]
    return made


def unplaced(names: list[str], gang: str | None = None) -> Document:
    """Pods that are left, with a cause, the second without."""
    cause = {
        "facts": [
            {"rule": "NodeResourcesFit", "object": "Node worker-001", "message": "has 500m of 8 CPU left, the pod asks for 2"},
            {"rule": "NodeAffinity", "object": f"Pod {names[0]}", "message": "goes only where disk=ssd"},
        ],
        "alone": False,
        "minimal": True,
        "proved": True,
        "waysOut": [
            {"message": "add one node like worker-001", "options": ["--add-nodes", "1:worker-001"]},
            {"message": f"lower the CPU request of {names[0]} to 500m", "options": []},
        ],
        "untried": [],
    }
    reasons = [
        {"rule": "NodeResourcesFit", "nodes": 4, "message": "not enough CPU"},
        {"rule": "NodeAffinity", "nodes": 2, "message": "disk=ssd"},
    ]
    return {"pods": names[:50], "count": len(names), "gang": gang, "reasons": reasons, "cause": cause if gang is None else None}


def result(random: Random, made: Document) -> None:
    """Add the solver's part: status, tiers, preferences, the course of the search, notes."""
    made["summary"] |= {
        "status": "optimal",
        "statusWords": ["optimal"],
        "engine": "exact",
        "seconds": {"load": 0.12, "compile": 0.2, "solve": 3.4, "verify": 0.02},
        "tiers": [
            {"label": "placed, priority 1000", "value": 3, "bound": 3, "gap": "proved", "of": 3},
            {"label": "preferences", "value": 4711, "bound": 4800, "gap": "1.9%", "of": None},
            {"label": "most allocated", "value": -85000, "bound": -85000, "gap": "proved", "of": None},
        ],
        "notes": ["pods of the node's own are counted as requested"],
        "unmodelled": [{"pod": "", "field": "spec.overhead", "effect": "counted as an ordinary request"}],
    }
    made["preferences"] = {
        "families": [
            {"family": "preferred node affinity", "value": 80, "best": 100, "multiplier": 1},
            {"family": "preferred pod anti-affinity", "value": 450, "best": 460, "multiplier": 3},
            {"family": "soft spread", "value": 12, "best": 12, "multiplier": 2},
        ],
        "workloads": [
            {"workload": "Deployment shop/web", "value": 400, "lost": 40},
            {"workload": "Deployment shop/api", "value": 10, "lost": 0},
        ],
        "unmet": [
            {"workload": "Deployment shop/web", "family": "preferred node affinity", "preference": "disk=ssd", "pods": 4, "lost": 20},
            {
                "workload": "Deployment shop/web",
                "family": "preferred pod anti-affinity",
                "preference": "apart from app=web",
                "pods": 1,
                "lost": 20,
            },
        ],
    }
    value, bound, points = 0, 5600, []
    for i in range(14):
        value = min(4711, value + random.randrange(100, 900))
        bound = max(4800, bound - random.randrange(0, 160))
        points.append([round(0.2 * i + random.random() * 0.1, 2), value, bound if i > 1 else None])
    made["search"] = [
        {"label": "placed, priority 1000", "points": [[0.05, 2, None], [0.1, 3, 3]]},
        {"label": "preferences", "points": points},
        {"label": "most allocated", "points": [[3.3, -85000, -85000]]},
    ]


def aggregated(random: Random, nodes: int, pods: int, moves: int = 200) -> Document:
    """A large plan: pods as groups, only those that move by name, in waves of forty."""
    made = plan(random, nodes, moves, max(1, moves // 40), 40)
    made["title"] = f"Rebalancing plan of {nodes:,} nodes, {pods:,} pods"
    made["named"] = made["pods"]
    named = made["named"]
    made["pods"] = None
    made["nodes"].pop("labels")
    groups: Document = {"workload": [], "shape": [], "priority": [], "node": [], "count": [[], []]}
    columns = made["nodes"]
    capacity = columns["cpu"]

    def add(n: int, w: int, s: int, priority: int, before: int, after: int) -> None:
        for key, value in (("workload", w), ("shape", s), ("priority", priority), ("node", n)):
            groups[key].append(value)
        groups["count"][0].append(before)
        groups["count"][1].append(after)
        for view, count in enumerate((before, after)):
            made["usage"][view]["cpu"][n] += count * made["shapes"][s]["cpu"]
            made["usage"][view]["memory"][n] += count * made["shapes"][s]["memory"]
            made["usage"][view]["pods"][n] += count

    for view in made["usage"]:
        for key in view:
            view[key] = [0] * nodes
    for p in range(moves):
        before, after = named["place"][0][p], named["place"][1][p]
        for n in {before, after} - {-1}:
            add(n, named["workload"][p], named["shape"][p], named["priority"][p], int(n == before), int(n == after))
    left, each = pods - moves, max(1, pods // nodes)
    for n in range(nodes):
        here = min(left, random.randrange(each // 2, each * 3 // 2 + 1))
        left -= here
        while here > 0:
            s = random.randrange(len(made["shapes"]))
            count = min(here, random.randrange(1, 9))
            here -= count
            if made["usage"][0]["cpu"][n] + count * made["shapes"][s]["cpu"] <= capacity[n]:
                add(n, random.randrange(len(made["workloads"])), s, random.randrange(3), count, count)
    made["groups"] = groups
    return made


def hostile(text: str) -> Document:
    """A plan in which every text from outside is ``text``, or ends with it where names must differ."""
    made = plan(Random(7), 4, 20, 3)
    columns, people = made["nodes"], made["pods"]
    columns["name"] = [f"{n}{text}" for n in range(4)]
    columns["taints"] = [[text]] * 4
    columns["labels"] = [[text]] * 4
    columns["numa"]["0"][0]["name"] = text
    people["name"] = [f"{p}/{text}" for p in range(20)]
    for zone in made["zones"]:
        zone["name"] = zone["key"] = text
    for workload in made["workloads"]:
        workload["name"] = workload["namespace"] = text
    for each in made["shapes"]:
        each["containers"] = [{"name": text, "cpu": text, "memory": text, "init": True}]
        each["rules"] = [{"rule": text, "text": text, "workloads": [0]}]
    for wave in made["waves"]:
        for step in wave["steps"]:
            step["reason"] = text
    taken = {"device": [0], "claim": [text], "request": [text], "how": [1], "amounts": [[[text, 1]]], "pods": [[0]], "when": [3]}
    made["devices"] = {
        "pools": [[text, text]], "name": [text], "pool": [0], "capacity": {"0": [[text, 2, False]]}, "sites": [[0]], "site": [0] * 4,
        "taken": taken,
    }  # fmt: skip
    made["title"] = made["version"] = text
    made["summary"] |= {"status": text, "engine": text, "notes": [text], "facts": [[text, text]]}
    made["summary"]["unmodelled"] = [{"pod": text, "field": text, "effect": text}]
    made["summary"]["violations"] = [{"pod": text, "node": text, "rule": text, "why": text}]
    made["summary"]["tiers"] = [{"label": text, "value": 1, "bound": 2, "gap": text, "of": None}]
    made["unplaced"] = [unplaced([text, text]), unplaced([text], gang=text)]
    made["unplaced"][0]["cause"]["waysOut"] = [{"message": text, "options": [text]}]
    made["obstacles"] = [{"goal": text, "message": text, "proved": False, "about": text}]
    made["search"] = [{"label": text, "fewer": False, "points": [[0.1, 1, 2]]}]
    made["kind"] = "Placement"  # which says more of preferences than a plan
    made["preferences"] = {
        "families": [{"family": text, "value": 1, "best": 2, "multiplier": 1}],
        "workloads": [{"workload": text, "value": 1, "lost": 1}],
        "unmet": [{"workload": text, "family": text, "preference": text, "pods": 1, "lost": 1}],
    }
    made["rulesBroken"] = {"before": {text: 1}, "after": {}}
    return made


#: One of every kind.
DOCUMENTS: dict[str, Callable[[], Document]] = {
    "nothing": lambda: blank(0),
    "empty nodes": lambda: blank(3),
    "snapshot": lambda: cluster(Random(1), 8, 60),
    "no zones": lambda: cluster(Random(2), 14, 60, zones=0),
    "placement": lambda: placement(Random(3), 9, 80, 5),
    "plan": lambda: plan(Random(4), 6, 60, 4),
    "tiles": lambda: cluster(Random(5), 320, 900),
    "groups": lambda: aggregated(Random(6), 400, 4000, 80),
    "hostile": lambda: hostile("<script>window.harm=1</script>"),
}
