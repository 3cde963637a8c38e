"""Which pods of a gang bind together: hand-written instances, each read off a bind order and judged by the checker as well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kubestow.models.snapshot import snapshot as snapshots
from kubestow.solver import rules
from kubestow.solver.bind_order.gang_units import Binder, Step, bundle
from kubestow.solver.bind_order.order import find_order
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.placement_model import build_model
from tests.objects import node, pod
from tests.solver.rules.test_gang_agreement import Cells, Oracle
from tests.tiny import HOST, RACK, ZONE, Object


def wants(*apps: str, key: str = ZONE) -> Object:
    """Required affinity to pods of each of these apps (all of its terms by one pod, where several are given)."""
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}} for app in apps]
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def evenly(*apps: str, key: str = ZONE) -> list[Object]:
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": sorted(apps)}]}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


def member(name: str, app: str, *, gang: str | None = "g", notes: dict[str, str] | None = None, **given: object) -> Object:
    result = pod(name, labels={"app": app}, **given)  # type: ignore[arg-type]
    if gang is not None:
        result["metadata"]["annotations"] = {"kubestow.dev/gang": gang, **{f"kubestow.dev/{key}": v for key, v in (notes or {}).items()}}
    return result


def zones(*names: str, cpu: str = "4") -> list[Object]:
    """One node for each name, in the zone of that name."""
    return [node(f"n{i}", cpu=cpu, labels={ZONE: name, RACK: f"r{i}"}) for i, name in enumerate(names)]


def oracle(*objects: Object) -> Oracle:
    return Oracle(snapshots.from_objects(list(objects)))


def state(case: Oracle, where: dict[str, int]) -> tuple[int, ...]:
    """Pods by name on nodes by number, as counts per class and node."""
    counts = np.zeros((case.cluster.n_classes, case.width), dtype=np.int64)
    for g, cls in enumerate(case.cluster.classes):
        for i in cls.pods:
            name = case.snapshot.pods[i].metadata.name or ""
            if name in where:
                counts[g, where[name]] += 1
    return tuple(counts.reshape(-1).tolist())


def judged(case: Oracle, where: dict[str, int]) -> list[Cells] | None:
    """The units of a placement, None where there are none; encoding, order and checker say the same."""
    placed = state(case, where)
    counts = np.array(placed, dtype=np.int64).reshape(case.cluster.n_classes, case.width)
    encoding = build_model(case.cluster, rules.build(case.cluster))
    within = all(counts[g, n] <= encoding.upper(int(g), int(n)) for g, n in np.argwhere(counts))
    if not within or encoding.assignment(counts) is None:
        assert not case.accepted(placed)
        return None
    ordering = find_order(case.cluster, counts)
    assert ordering.sequence is not None
    units = case.read(ordering.sequence)
    assert case.accepts(units)
    return units


def sizes(units: Sequence[Cells] | None) -> list[int] | None:
    return None if units is None else sorted(len(unit) for unit in units)


def test_two_templates_that_want_each_other_open_one_zone() -> None:
    case = oracle(
        *zones("z1", "z1", "z2"), member("a0", "a", affinity=wants("b")), member("a1", "a", affinity=wants("b")),
        member("b0", "b", affinity=wants("a")),
    )  # fmt: skip
    assert judged(case, {"a0": 0, "a1": 1, "b0": 1}) is not None
    assert max(sizes(judged(case, {"a0": 2, "a1": 2, "b0": 2})) or [0]) > 1
    assert judged(case, {"a0": 0, "a1": 2, "b0": 0}) is None  # a1 has no b in its zone


def test_a_pair_is_satisfied_beside_a_match_elsewhere() -> None:
    running = pod("b9", labels={"app": "b"}, node_name="n2")
    case = oracle(*zones("z1", "z1", "z2"), running, member("a0", "a", affinity=wants("b")), member("b0", "b", affinity=wants("a")))
    assert sizes(judged(case, {"a0": 0, "b0": 0})) == [2]
    assert judged(case, {"a0": 0, "b0": 2}) is None  # b0 has no a in its zone
    assert sizes(judged(case, {"a0": 2, "b0": 2})) == [1, 1]  # with the running one before them they need no unit


def test_two_pairs_may_be_in_two_zones() -> None:
    pods = [member(f"{app}{i}", app, affinity=wants("b" if app == "a" else "a")) for app in "ab" for i in range(2)]
    case = oracle(*zones("z1", "z2"), *pods)
    assert judged(case, {"a0": 0, "b0": 0, "a1": 1, "b1": 1}) is not None
    assert judged(case, {"a0": 0, "b0": 0, "a1": 0, "b1": 1}) is None
    assert judged(case, {"a0": 0, "b0": 0, "a1": 0, "b1": 0}) is not None


def test_members_of_different_gangs_or_of_none_do_not_bind_together() -> None:
    for gangs in (("g", "h"), (None, None), ("g", None)):
        case = oracle(*zones("z1"), member("a0", "a", gang=gangs[0], affinity=wants("b")),
                       member("b0", "b", gang=gangs[1], affinity=wants("a")))  # fmt: skip
        assert judged(case, {"a0": 0, "b0": 0}) is None


def test_three_templates_in_a_cycle() -> None:
    ring = {"a": "b", "b": "c", "c": "a"}
    running = pod("a9", labels={"app": "a"}, node_name="n2")
    pods = [member(f"{app}0", app, affinity=wants(target)) for app, target in ring.items()]
    case = oracle(*zones("z1", "z1", "z2"), *pods)
    assert sizes(judged(case, {"a0": 0, "b0": 1, "c0": 0})) == [3]
    assert judged(case, {"a0": 0, "b0": 1, "c0": 2}) is None
    # They provide for each other and open nothing, so that a match elsewhere does not bother them.
    case = oracle(*zones("z1", "z1", "z2"), running, *pods)
    assert sizes(judged(case, {"a0": 0, "b0": 1, "c0": 0})) == [3]


def test_a_self_affine_gang_opens_one_zone_pod_by_pod() -> None:
    case = oracle(*zones("z1", "z1", "z2"), *(member(f"a{i}", "a", affinity=wants("a")) for i in range(3)))
    assert sizes(judged(case, {"a0": 0, "a1": 1, "a2": 0})) == [1, 1, 1]
    assert judged(case, {"a0": 0, "a1": 1, "a2": 2}) is None


def test_pairs_on_two_nodes_of_a_zone() -> None:
    """a wants b on its node, b wants a in its zone."""
    pods = [member(f"a{i}", "a", affinity=wants("b", key=HOST)) for i in range(2)]
    pods += [member(f"b{i}", "b", affinity=wants("a")) for i in range(2)]
    case = oracle(*zones("z1", "z1", "z2"), *pods)
    assert judged(case, {"a0": 0, "b0": 0, "a1": 1, "b1": 1}) is not None
    assert judged(case, {"a0": 0, "b0": 0, "a1": 1, "b1": 0}) is None


def test_a_pair_over_two_keys_is_satisfied_beside_a_match_elsewhere() -> None:
    """a wants b in its zone, b wants a on its node; another a runs elsewhere."""
    running = pod("a9", labels={"app": "a"}, node_name="n2")
    case = oracle(
        *zones("z1", "z1", "z2"), running, member("a0", "a", affinity=wants("b")), member("b0", "b", affinity=wants("a", key=HOST))
    )
    assert sizes(judged(case, {"a0": 0, "b0": 0})) == [2]
    assert judged(case, {"a0": 0, "b0": 1}) is None
    assert sizes(judged(case, {"a0": 2, "b0": 2})) == [1, 1]


def test_pods_of_the_same_terms_do_not_found_each_other() -> None:
    """b and a0 want a, a1 wants b. b and a1 satisfy each other. b and a0 alone have nobody, since an a runs elsewhere."""
    running = pod("a9", labels={"app": "a"}, node_name="n2")
    pods = [member("b0", "b", affinity=wants("a")), member("a0", "a", affinity=wants("a")), member("a1", "a", affinity=wants("b"))]
    where = {"b0": 0, "a0": 0, "a1": 1}
    assert sizes(judged(oracle(*zones("z1", "z1", "z2"), running, *pods), where)) == [3]
    assert judged(oracle(*zones("z1", "z1", "z2"), *pods), where) is not None
    pair = {"b0": 0, "a0": 0}
    assert judged(oracle(*zones("z1", "z1", "z2"), running, *pods[:2]), pair) is None
    assert judged(oracle(*zones("z1", "z1", "z2"), *pods[:2]), pair) is not None


def test_spread_that_no_order_of_single_pods_satisfies() -> None:
    """Each counts the other: with either alone its zone would be two ahead of the other."""
    running = [pod(f"{app}9", labels={"app": app}, node_name="n0") for app in "ab"]
    case = oracle(*zones("z1", "z2"), *running, member("a0", "a", spread=evenly("b")), member("b0", "b", spread=evenly("a")))
    assert sizes(judged(case, {"a0": 0, "b0": 1})) == [1, 1]
    pods = [member("a0", "a", spread=evenly("a", "c")), member("b0", "b", spread=evenly("a", "c"))]
    pods += [member("c0", "c", affinity=wants("a", key=ZONE)), member("c1", "c", affinity=wants("b", key=ZONE))]
    case = oracle(*zones("z1", "z2"), *pods)
    assert judged(case, {"a0": 0, "c0": 0, "b0": 1, "c1": 1}) is not None


def test_members_without_rules_of_their_own_bind_with_those_that_count_them() -> None:
    """Zone z1 is two ahead for a's constraint until the plain members of zone z2 are there; the last of them have no rules at all."""
    running = [pod(f"c{i}", labels={"app": "c"}, node_name="n0") for i in range(2)]
    pods = [member("a0", "a", spread=evenly("a", "c")), member("c8", "c"), member("c9", "c")]
    case = oracle(*zones("z1", "z2"), *running, *pods)
    cluster = case.cluster
    a = next(g for g, cls in enumerate(cluster.classes) if cls.spread)
    steps: list[Step] = [(a, 0, 1), (1 - a, 1, 2)]
    assert bundle(cluster, steps) == [(steps, True)]
    assert case.accepts(case.read(steps))
    assert sizes(judged(case, {"a0": 0, "c8": 1, "c9": 1})) == [1, 1, 1]


def test_an_order_that_cannot_be_read_is_refused() -> None:
    case = oracle(*zones("z1", "z2"), member("a0", "a", affinity=wants("b")), member("b0", "b", affinity=wants("a")))
    with pytest.raises(ValueError, match="no order for gang default/g"):
        bundle(case.cluster, [(0, 0, 1), (1, 1, 1)])


def verdicts(case: Oracle, active: Sequence[Rule]) -> list[list[bool]]:
    """All current verdicts of the rules, and those with each pod placed once more."""
    said: list[list[bool]] = []
    for g in range(case.cluster.n_classes):
        said += [rule.rejects(g).tolist() for rule in active]
        for n in range(case.width):
            for rule in active:
                rule.place(g, n)
            said += [rule.rejects(h).tolist() for rule in active for h in range(case.cluster.n_classes)]
            for rule in active:
                rule.remove(g, n)
    return said


def test_binding_a_unit_that_is_refused_leaves_no_trace() -> None:
    pods = [member(f"a{i}", "a", cpu="3", affinity=wants("b"), spread=evenly("a")) for i in range(2)]
    case = oracle(*zones("z1", "z1", "z2"), *pods, member("b0", "b", cpu="2", affinity=wants("a")))
    active = rules.build(case.cluster)
    binder = Binder(case.cluster, active)
    before = verdicts(case, active)
    a = next(g for g, cls in enumerate(case.cluster.classes) if cls.spread)
    assert not binder.bind([(a, 0, 1), (a, 2, 1), (1 - a, 0, 1)])  # a1 is alone in z2
    assert not binder.bind([(a, 0, 1), (1 - a, 0, 1)])  # no room on n0 for both
    assert not binder.bind([(a, 0, 1), (a, 1, 1), (1 - a, 1, 1)])  # nor on n1, and two in z1 are too many
    assert verdicts(case, active) == before
    assert binder.bind([(a, 0, 1), (1 - a, 1, 1)])
    assert verdicts(case, active) != before
    binder.put(a, 0, -1)
    binder.put(1 - a, 1, -1)
    assert verdicts(case, active) == before
