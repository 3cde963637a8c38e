"""The expected contents of a page, worked out from the snapshot and the result, and the actual ones, read from its elements."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.kube import objects
from kubestow.models.kube.feature_gates import DEFAULT as GATES
from kubestow.models.kube.pod_requests import allocatable, pod_request
from kubestow.models.snapshot.snapshot import Snapshot
from tests.report.page.browser import Opened

Result = Placement | RebalancePlan | None


@dataclass
class State:
    """The places of pods: ``on``: by node the pods with their requests (mCPU, bytes); ``nowhere``: pods without a node."""

    on: dict[str, dict[str, tuple[int, int]]]
    nowhere: set[str] = field(default_factory=set)

    def sums(self, node: str) -> tuple[int, int, int]:
        there = self.on[node].values()
        return sum(cpu for cpu, _ in there), sum(memory for _, memory in there), len(there)


def states(snapshot: Snapshot, result: Result) -> list[State]:
    """Before, after each wave of a plan or rollout (or once, after the placement); one state alone without a result."""
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods if not objects.is_terminal(pod)}
    nodes = [node.metadata.name or "" for node in snapshot.nodes]
    place = {key: pod.spec.nodeName if pod.spec.nodeName in nodes else None for key, pod in pods.items()}
    fresh: set[str] = set()  # recreated, which drops a resize in place

    def state() -> State:
        found = State({name: {} for name in nodes})
        for key, node in place.items():
            if node is None:
                found.nowhere.add(key)
                continue
            pod = objects.Pod(pods[key].metadata, pods[key].spec) if key in fresh else pods[key]
            request = pod_request(pod, GATES)
            found.on[node][key] = request.get("cpu", 0), request.get("memory", 0)
        return found

    def put(key: str, node: str | None) -> None:
        if pods[key].spec.nodeName is not None and node is not None:
            fresh.add(key)
        place[key] = node

    found = [state()]
    if isinstance(result, RebalancePlan):
        steps = [(m.step, m.wave, m.pod, m.to) for m in result.moves] + [(e.step, e.wave, e.pod, None) for e in result.evictions]
        waves: dict[int, list[tuple[int, str, str | None]]] = defaultdict(list)
        for step, wave, pod, to in steps:
            waves[wave].append((step, pod, to))
        for _, listed in sorted(waves.items()):
            for _, pod, to in sorted(listed, key=lambda each: each[0]):
                put(pod, to)
            found.append(state())
    elif isinstance(result, Placement) and result.rollout is not None:
        for i, each in enumerate(result.rollout.waves):
            going = [key for key, pod in pods.items() if not i and objects.is_terminating(pod) and _revision(pod, result.rollout.workload)]
            place.update(dict.fromkeys([*going, *each.delete]))
            place.update({entry.pod: entry.node for entry in each.create})
            found.append(state())
    elif result is not None:
        place.update({left.pod: None for left in result.unplaced})
        for given in result.assignments:
            put(given.pod, given.node)
        found.append(state())
    return found


def _revision(pod: objects.Pod, workload: str) -> bool:
    owner = objects.controller_of(pod)
    return owner is not None and owner.name.startswith(f"{workload.rpartition('/')[2]}-")


def percent(part: int, whole: int) -> int:
    """Half up, and 100 only where it is exact."""
    if whole <= 0:
        return 101 if part > 0 else 0
    rounded = (200 * part + whole) // (2 * whole)
    return min(99, rounded) if part < whole else max(101, rounded) if part > whole else 100


# --- reading ------------------------------------------------------------------------------------------------------------------

_UNITS = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5}


def close(text: str, value: int, *, cores: bool) -> bool:
    """Return whether an amount as written on the page is the value, rounded to the last figure shown."""
    if cores:
        unit = Decimal(1) if text.endswith("m") else Decimal(1000)
        number = text.removesuffix("m")
    else:
        number, name = text.split(" ")
        unit = Decimal(1024) ** _UNITS[name]
    shown = Decimal(number.replace(",", ""))
    size = abs(shown)
    step = Decimal(1) if unit == 1 else Decimal("0.01") if size < 10 else Decimal("0.1") if size < 100 else Decimal(1)
    return abs(shown * unit - value) <= step * unit * Decimal("0.5001")


def number(text: str) -> int:
    return int(text.replace(",", ""))


_PANELS = """() => {
  const text = (e) => e ? e.textContent : null;
  return [...document.querySelectorAll("#map [data-n]")].sort((a, b) => a.dataset.n - b.dataset.n).map((button) => {
    button.click();
    const panel = document.getElementById("panel");
    panel.querySelectorAll(":scope > .more > button").forEach((more) => more.click());
    const rows = [...panel.querySelectorAll("details.pod")].map((each) => ({
      name: text(each.querySelector("summary .name")), badge: text(each.querySelector("summary .badge")),
      cpu: text(each.querySelectorAll("summary .num")[0]), memory: text(each.querySelectorAll("summary .num")[1]) }));
    const lists = {};
    panel.querySelectorAll(":scope > h3").forEach((head) => {
      const list = head.nextElementSibling;
      const plain = list && (list.matches("ul") ? list : list.querySelector(":scope > ul"));
      lists[head.firstChild.textContent.trim()] = plain ? [...plain.children].map(text) : [text(head.querySelector(".dim"))];
    });
    const groups = [...panel.querySelectorAll("details.pod:not([data-p]) summary .who")].map(text);
    return { name: text(document.getElementById("panel-title")), label: button.getAttribute("aria-label"),
      levels: [...panel.querySelectorAll(".levels dd > span:first-child")].map(text), rows, lists, groups };
  });
}"""


def go(opened: Opened, at: int, last: int) -> None:
    """To a position: 0 before, ``last`` after."""
    if opened.page.locator("#slider").count():
        opened.do("(at) => { const s = document.getElementById('slider'); s.value = at; s.dispatchEvent(new Event('input')); }", at)
    elif last:
        opened.do(f"document.querySelectorAll('#views input')[{0 if at == 0 else 1}].click()")


def check(opened: Opened, snapshot: Snapshot, result: Result, *, grouped: bool = False) -> int:
    """Check every node at every position: label, levels, pods of the panel, departures and arrivals. Return the number of checked nodes."""
    expected = states(snapshot, result)
    offers = [allocatable((node.status.allocatable or node.status.capacity) if node.status else None) for node in snapshot.nodes]
    looked = 0
    for at, state in enumerate(expected):
        go(opened, at, len(expected) - 1)
        panels = opened.do(_PANELS)
        assert len(panels) == len(snapshot.nodes)
        for node, offer, panel in zip(snapshot.nodes, offers, panels, strict=True):
            looked += 1
            name = node.metadata.name or ""
            assert panel["name"] == name
            _node(panel, state, expected[0], name, offer)
            if grouped:
                _groups(panel, state, expected[0], name)
            else:
                _pods(panel, state, name)
                _differences(panel, expected, at, name)
    return looked


def _node(panel: dict[str, Any], state: State, before: State, name: str, offer: dict[str, int]) -> None:
    used, then = state.sums(name), before.sums(name)
    of = offer.get("cpu", 0), offer.get("memory", 0), offer.get("pods", 0)
    shares = [percent(part, whole) for part, whole in zip(used, of, strict=True)]
    match = re.search(r": CPU (\d+)%, memory (\d+)%, ([\d,]+) pods?(,|$)", panel["label"])
    assert match is not None, panel["label"]
    assert [number(match[i]) for i in (1, 2, 3)] == [shares[0], shares[1], used[2]], (name, panel["label"], used, of)
    for i, text in enumerate(panel["levels"]):
        found = re.fullmatch(r"(\d+)% (.+) of (.+?)(?: \(before: (\d+)%\))?", text)
        assert found is not None, text
        assert int(found[1]) == shares[i], (name, text, used, of)
        if i == 2:
            assert (number(found[2]), number(found[3])) == (used[2], of[2]), text
        else:
            assert close(found[2], used[i], cores=not i), (name, text, used)
            assert close(found[3], of[i], cores=not i), (name, text, of)
        assert found[4] == (str(percent(then[i], of[i])) if then[i] != used[i] else None), (name, text, then, used)


def _pods(panel: dict[str, Any], state: State, name: str) -> None:
    assert sorted(row["name"] for row in panel["rows"]) == sorted(state.on[name])
    for row in panel["rows"]:
        cpu, memory = state.on[name][row["name"]]
        assert close(row["cpu"], cpu, cores=True), (row, cpu)
        assert close(row["memory"], memory, cores=False), (row, memory)


def _groups(panel: dict[str, Any], state: State, before: State, name: str) -> None:
    assert sum(number(text.partition(" × ")[0]) for text in panel["groups"]) == len(state.on[name]), (name, panel["groups"])
    changes = panel["lists"].get("Change since before", [])
    assert sum(number(text.partition(" × ")[0]) for text in changes) == len(state.on[name]) - len(before.on[name]), (name, changes)


def _differences(panel: dict[str, Any], expected: list[State], at: int, name: str) -> None:
    now = expected[at].on[name].keys()
    gone = sorted(expected[0].on[name].keys() - now)
    coming = sorted(expected[-1].on[name].keys() - now)
    for title, pods in (("Gone since before", gone), ("Still to come", coming)):
        listed = panel["lists"].get(title, [])
        assert len(listed) == len(pods), (title, name, listed, pods)
        assert all(any(text.startswith(pod) for text in listed) for pod in pods), (title, name, listed, pods)


# --- the texts ----------------------------------------------------------------------------------------------------------------

_TABLE = """(caption) => {
  const found = [...document.querySelectorAll("caption")].find((each) => each.textContent === caption);
  return found ? [...found.parentElement.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent)) : null;
}"""


#: How the page calls tiers that have one name.
_GOALS = {
    "placed": "pods placed",
    "soft": "preferences",
    "drained": "pods left",
    "rules": "rules",
    "evictions": "pods evicted",
    "moves": "moves",
}


def check_texts(opened: Opened, snapshot: Snapshot, result: Result) -> None:
    """Tiles, tiers, preferences, rules broken and pods that are left, against the document and the objects."""
    opened.do("dispatchEvent(new Event('beforeprint'))")
    expected = states(snapshot, result)
    _tiles(opened, snapshot, result, expected)
    if result is None:
        return
    rows = opened.do(_TABLE, "Objective, most important tier first") or []
    assert len(rows) == len(result.objective)
    for row, tier in zip(rows, result.objective, strict=True):
        assert tier.priority is None or row[0].endswith(f", priority {tier.priority}")
        assert row[0].startswith(_GOALS.get(tier.tier, ""))
        assert (number(row[1].partition(" of ")[0]), number(row[2])) == (abs(tier.value), abs(tier.bound))  # costs are counted
        assert (row[3] == "✓ proved") == (tier.value == tier.bound)
        if tier.tier == "placed" and isinstance(result, Placement):
            assert number(row[1].partition(" of ")[2]) == len(_asked(snapshot, result, tier.priority)), (row, tier)
    assert [number(text) for text in opened.do("[...document.querySelectorAll('#unplaced-count')].map((e) => e.textContent || '0')")] == [
        _left(result)
    ]
    if isinstance(result, RebalancePlan):
        _plan_texts(opened, result)
    else:
        _placement_texts(opened, result)


def _asked(snapshot: Snapshot, result: Placement, priority: int | None) -> list[str]:
    pods = {objects.pod_key(pod): pod.spec.priority or 0 for pod in snapshot.pods}
    asked = [given.pod for given in result.assignments] + [left.pod for left in result.unplaced if not left.gated]
    return [pod for pod in asked if priority is None or pods[pod] == priority]


def _left(result: Placement | RebalancePlan) -> int:
    if isinstance(result, RebalancePlan):
        return 0
    stuck = result.rollout.stuck if result.rollout is not None and not result.rollout.complete else []
    return len({left.pod for left in (*result.unplaced, *stuck)})


def _tiles(opened: Opened, snapshot: Snapshot, result: Result, expected: list[State]) -> None:
    tiles = dict(
        opened.do(
            "[...document.querySelectorAll('#tiles > div')].map((e) => [e.children[0].textContent, e.querySelector('.name').textContent])"
        )
    )
    ends = [expected[0], expected[-1]] if result is not None else expected
    nodes = [node.metadata.name or "" for node in snapshot.nodes]
    offers = [allocatable((node.status.allocatable or node.status.capacity) if node.status else None) for node in snapshot.nodes]

    def change(values: list[str]) -> str:
        return values[0] if len(set(values)) == 1 else " → ".join(values)

    assert number(tiles["Nodes"]) == len(nodes)
    running = [sum(len(there) for there in state.on.values()) for state in ends]
    assert tiles["Pods running"] == change([f"{count:,}" for count in running])
    assert tiles["Nodes with pods"] == change([f"{sum(1 for there in state.on.values() if there):,}" for state in ends])
    for title, at, resource in (("CPU requested", 0, "cpu"), ("Memory requested", 1, "memory")):
        total = sum(offer.get(resource, 0) for offer in offers)
        shares = [f"{percent(sum(state.sums(name)[at] for name in nodes), total)}%" for state in ends]
        if total:
            assert tiles[title] == change(shares)
    if isinstance(result, RebalancePlan):
        assert number(tiles["Moves"]) == sum(move.source is not None for move in result.moves)
        assert number(tiles["Evictions"]) == len(result.evictions)
        assert number(tiles["Waves"]) == len(expected) - 1
    elif result is not None:
        assert tiles["Placed"] == f"{len(result.assignments):,} of {result.snapshot.pending:,}"
    waiting = [
        pod
        for pod in snapshot.pods
        if not objects.is_terminal(pod) and not objects.is_terminating(pod) and objects.pod_key(pod) in expected[-1].nowhere
    ]
    evicted = {gone.pod for gone in result.evictions} if isinstance(result, RebalancePlan) else set()
    if isinstance(result, Placement) and result.rollout is not None:
        evicted = {pod for wave in result.rollout.waves for pod in wave.delete}
    waiting = [pod for pod in waiting if objects.pod_key(pod) not in evicted and not (pod.spec.nodeName and pod.spec.nodeName not in nodes)]
    assert number(tiles.get("Pending", "0")) + number(tiles.get("Gated", "0")) == len(waiting), (
        tiles,
        [objects.pod_key(p) for p in waiting],
    )


def _plan_texts(opened: Opened, plan: RebalancePlan) -> None:
    rows = opened.do(_TABLE, "Rules broken before and after") or []
    assert {row[0]: (number(row[1]), number(row[2])) for row in rows} == {
        rule: (plan.before.rules.get(rule, 0), plan.after.rules.get(rule, 0)) for rule in {*plan.before.rules, *plan.after.rules}
    }
    before = {each.family: each.value for each in plan.before.preferences}
    rows = opened.do(_TABLE, "Families of preferences") or []
    assert [[row[0], *map(number, row[1:3])] for row in rows] == [
        [each.family, before.get(each.family, 0), each.value] for each in plan.after.preferences
    ]
    listed = opened.do("[...document.querySelectorAll('#waves tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
    steps = [(m.wave, m.step, m.pod, m.source or "–", m.to, m.reason) for m in plan.moves]
    steps += [(e.wave, e.step, e.pod, e.source, "–", e.reason) for e in plan.evictions]
    for row, step in zip(listed, sorted(steps, key=lambda each: each[:2]), strict=True):
        assert row[0].startswith(step[2])
        assert tuple(row[1:]) == step[3:]
    rows = opened.do(_TABLE, "Obstacles to the goals") or []
    assert [(row[0], row[1], row[3] == "✓ proved") for row in rows] == [(each.goal, each.message, each.proved) for each in plan.obstacles]


def _placement_texts(opened: Opened, result: Placement) -> None:
    found = result.preferences
    rows = opened.do(_TABLE, "Families of preferences") or []
    families = found.families if found is not None else []
    assert [[row[0], *map(number, row[2:5])] for row in rows] == [[f.family, f.value, f.best, f.best - f.value] for f in families]
    rows = opened.do(_TABLE, "Preferences that were not met in full") or []
    assert [(row[1], row[2], number(row[3]), number(row[4])) for row in rows] == [
        (u.family, u.preference, u.pods, u.lost) for u in (found.unmet if found is not None else [])
    ]
    text = opened.do("document.getElementById('unplaced-body').textContent")
    for left in result.unplaced:
        assert all(reason.message.removesuffix(f" on {reason.nodes}") in text for reason in left.reasons)
    for cause in result.causes:
        assert all(way.message in text for way in cause.waysOut)
    assert text.count(" let it be placed.") <= len(result.causes)


def check_containers(opened: Opened, snapshot: Snapshot, result: Result) -> int:
    """Check the containers of all pods in the panels: their requests as written, and the NUMA zones of the result."""
    zones = {}
    if isinstance(result, Placement):
        zones = {(given.pod, each.name): each.zones for given in result.assignments for each in given.containers}
    pods = {objects.pod_key(pod): pod for pod in snapshot.pods}
    found = opened.do("""() => [...document.querySelectorAll("#map [data-n]")].flatMap((button) => {
      button.click();
      const panel = document.getElementById("panel");
      panel.querySelectorAll(":scope > .more > button").forEach((more) => more.click());
      return [...panel.querySelectorAll("details.pod")].map((each) => { each.build();
        return [each.querySelector("summary .name").textContent,
          [...each.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent))]; });
    })""")
    for key, rows in found:
        spec = pods[key].spec
        wanted = []
        for container, init in [
            *((c, c.restartPolicy != "Always") for c in spec.initContainers or ()),
            *((c, False) for c in spec.containers or ()),
        ]:
            asks = (container.resources.requests if container.resources else None) or {}
            given = zones.get((key, container.name or ""))
            text = f"{container.name}{' init' if init else ''}{' on ' + ', '.join(given) if given else ''}"
            wanted.append([text, *(str(asks[r]) if r in asks else "–" for r in ("cpu", "memory"))])
        assert rows == wanted, key
    return len(found)
