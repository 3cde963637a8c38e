"""Compilation of a snapshot: equal pods become templates, and templates that all rules treat alike become pod classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kubestow.models.cluster import fixed_pods
from kubestow.models.cluster.cluster import Cluster, GangGroup, Ints, PodClass, RequiredAffinity, SoftSpread, Spread, signature
from kubestow.models.cluster.node_rules import NodeRules
from kubestow.models.cluster.node_scores import weighed
from kubestow.models.cluster.node_scores.base import NodeScores
from kubestow.models.cluster.templates import ClassTemplate, TemplateReader
from kubestow.models.cluster.volumes import VolumeTable
from kubestow.models.devices.table import DeviceTable, device_table
from kubestow.models.documents.policy import DEFAULT, DefaultConstraint, Policy, node_topologies
from kubestow.models.gangs.gangs import Gang
from kubestow.models.kube import pod_requests
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.pod_spec import claim_keys, host_ports, required_features
from kubestow.models.kube.selectors import Bools, NodeColumns
from kubestow.models.numa import node_topology
from kubestow.models.numa.balloons import Balloons
from kubestow.models.numa.isolated_cpus import IsolatedCPUs
from kubestow.models.numa.node_topology import NumaTree
from kubestow.models.snapshot.scope import Scope, is_mirror
from kubestow.models.snapshot.snapshot import InputError, Snapshot


def compile_cluster(
    snapshot: Snapshot,
    scope: Scope,
    *,
    daemon_namespaces: tuple[str, ...] = (),
    policy: Policy = DEFAULT,
    running: Mapping[int, int] | None = None,
    hard_spread: Sequence[DefaultConstraint] = (),
) -> Cluster:
    """Compile a snapshot into an instance that places the pending pods of ``scope`` among its fixed pods.

    ``running`` maps movable running pods to numbers. Pods with different numbers share no class, and none is in a gang.
    ``hard_spread``: DoNotSchedule constraints of a scheduler for pods without constraints.

    Raises:
        InputError: A quantity exceeds 64 bits, or a container-affinity annotation or node topology cannot be read.
    """
    trees, nodes = _trees(snapshot, policy), NodeColumns(snapshot.nodes)
    devices = _devices(snapshot, scope, nodes, running or {})
    reader = TemplateReader(
        snapshot, scope, policy, daemon_namespaces, running or {}, trees=trees.values(), devices=devices, hard_spread=hard_spread
    )
    node_index = {name: n for n, name in enumerate(nodes.names)}
    fixed, pending, profiles = _templates(reader, scope, node_index, devices)
    resources, allocatable, slots = _allocatable(nodes, snapshot, devices, [*fixed, *pending])
    used, used_slots = fixed_pods.used(fixed, nodes.size, resources)
    rules, scores = NodeRules(nodes, snapshot.gates), [kind(snapshot.nodes) for kind in weighed(policy)]
    classes, demand, supposed = _classes(reader, rules, scores, pending)
    placed, settled = fixed_pods.placed(snapshot, fixed, nodes.size, profiles)
    return Cluster(
        snapshot=snapshot,
        scope=scope,
        nodes=nodes,
        resources=resources,
        allocatable=allocatable,
        free=allocatable - used,
        slots=slots - used_slots,
        classes=classes,
        demand=np.array([[amounts.get(name, 0) for name in resources] for amounts in demand], dtype=np.int64).reshape(-1, len(resources)),
        supposed=np.array(supposed, dtype=np.int64).reshape(-1, 2),
        count=np.array([c.count for c in classes], dtype=np.int64),
        priority=np.array([c.priority for c in classes], dtype=np.int64),
        profile=np.array([c.profile for c in classes], dtype=np.int32),
        matchers=reader.matchers,
        node_sets=rules.node_sets,
        toleration_sets=rules.toleration_sets,
        node_scores={each.name: each.rows for each in scores},
        volumes=VolumeTable(snapshot, nodes),
        fixed_claims=fixed_pods.claims(snapshot, scope, node_index),
        policy=policy,
        trees={node_index[name]: tree for name, tree in trees.items() if name in node_index},
        fixed_containers=reader.containers.fixed(((t.containers, t.nodes.astype(np.int64)) for t in fixed), nodes.size),
        declared=reader.gangs,
        gangs=_groups(snapshot, nodes, node_index, reader.gangs, classes),
        devices=devices,
        _placed=placed,
        _settled=settled,
        **_of_fixed(fixed, nodes.size),
    )


def _of_fixed(fixed: Sequence[ClassTemplate], size: int) -> dict[str, Any]:
    """Return the fields of a cluster that hold the terms, ports and assumed requests of fixed pods; ``size``: number of nodes."""
    return {
        "fixed_supposed": fixed_pods.supposed(fixed, size),
        "fixed_anti": fixed_pods.anti(fixed),
        "fixed_ports": fixed_pods.ports(fixed),
        "fixed_pulls": fixed_pods.pulls(fixed, size),
    }


def _templates(
    reader: TemplateReader, scope: Scope, node_index: Mapping[str, int], devices: DeviceTable | None
) -> tuple[list[ClassTemplate], list[ClassTemplate], int]:
    """Return the templates of fixed pods (with nodes), the templates of pending pods, and the number of profiles."""
    fixed = reader.templates(scope.fixed, bound=True)
    pending = reader.templates(scope.pending, bound=False)
    for resource, provided in devices.provided.items() if devices is not None else ():
        if provided.all():  # no node lists the resource, so only devices limit it
            for template in (*fixed, *pending):
                template.demand.pop(resource, None)
    pods = reader.snapshot.pods
    for template in fixed:
        template.nodes = np.array([node_index[pods[i].spec.nodeName or ""] for i in template.pods], dtype=np.int32)
    return fixed, pending, _profiles(reader, [*fixed, *pending])


def _devices(snapshot: Snapshot, scope: Scope, nodes: NodeColumns, running: Mapping[int, int]) -> DeviceTable | None:
    """Return the table of devices that pending pods request, or None if there are no device objects and no claims.

    Raises:
        InputError: A quantity exceeds 64 bits.
    """
    if not (snapshot.device_classes or snapshot.resource_claims or any(snapshot.pods[i].spec.resourceClaims for i in scope.pending)):
        return None
    try:
        return device_table(snapshot, scope, nodes, running)
    except ValueError as error:
        raise InputError([f"devices: {error}"]) from error


def _provide(allocatable: Ints, resources: list[str], devices: DeviceTable | None, templates: Sequence[ClassTemplate]) -> None:
    """Lift the limit of extended resources on nodes where devices provide them: the allocatable amount suffices for all pods."""
    for resource, provided in devices.provided.items() if devices is not None else ():
        if resource in resources:
            allocatable[provided, resources.index(resource)] = sum(t.demand.get(resource, 0) * len(t.pods) for t in templates)


def _profiles(reader: TemplateReader, templates: Sequence[ClassTemplate]) -> int:
    """Set the profile of each template (its labels restricted to keys that selectors read) and freeze the matchers.

    Returns:
        The number of profiles.
    """
    read = reader.matchers.keys()
    profiles: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    for template in templates:
        labels = tuple(sorted((k, v) for k, v in reader.labels(template).items() if k in read))
        template.profile = profiles.setdefault((template.namespace, labels), len(profiles))
    reader.matchers.freeze(list(profiles))
    return len(profiles)


def _allocatable(
    nodes: NodeColumns, snapshot: Snapshot, devices: DeviceTable | None, templates: Sequence[ClassTemplate]
) -> tuple[list[str], Ints, Ints]:
    """Return the requested resources, their allocatable amounts per node [N, R], and the pod slots [N]."""
    requested = {name for t in templates for name in t.demand}
    base = ["cpu", "memory"]
    resources = base + sorted(requested - set(base))
    column = {name: r for r, name in enumerate(resources)}
    table = np.zeros((nodes.size, len(resources)), dtype=np.int64)
    slots = np.zeros(nodes.size, dtype=np.int64)
    for n, node in enumerate(snapshot.nodes):
        status = node.status
        listed = (status.allocatable if status.allocatable is not None else status.capacity) if status else None
        try:
            amounts = pod_requests.allocatable(listed)
        except ValueError as error:
            raise InputError([f"Node {nodes.names[n]}: status.allocatable: {error}"]) from error
        slots[n] = min(amounts.get("pods", 0), 2**31)
        for name, value in amounts.items():
            if name in column:
                table[n, column[name]] = value
    _provide(table, resources, devices, templates)
    return resources, table, slots


def _classes(
    reader: TemplateReader, rules: NodeRules, scores: Sequence[NodeScores], pending: Sequence[ClassTemplate]
) -> tuple[list[PodClass], list[dict[str, int]], list[tuple[int, int]]]:
    """Merge templates with equal rules, matchers and gang into classes.

    Returns:
        The classes, the requests of each, and the extra CPU and memory of each in the balance score.
    """
    priorities = [template.pod.spec.priority or 0 for template in pending]
    lowest: dict[int, int] = {}  # a gang has the lowest priority of its members
    for template, priority in zip(pending, priorities, strict=True):
        if template.gang is not None:
            lowest[template.gang] = min(priority, lowest.get(template.gang, priority))
    prefers, declaring = bool(reader.policy.multipliers.nodeAffinity), reader.snapshot.gates.enabled("NodeDeclaredFeatures")
    matchers = reader.matchers
    hits = np.array([matchers.hits(m) for m in range(len(matchers))], dtype=bool).reshape(len(matchers), len(matchers.profiles))
    matched = [column.tobytes() for column in np.packbits(hits, axis=0).T]
    found: dict[tuple[object, ...], tuple[PodClass, dict[str, int], tuple[int, int]]] = {}
    read: dict[tuple[int, bytes], PodClass] = {}
    for template, priority in zip(pending, priorities, strict=True):
        hit = matched[template.profile]
        same = read.get((template.reading, hit))
        if same is not None:
            same.pods.extend(template.pods)
            continue
        cls = _pod_class(template, rules, hits, prefers=prefers)
        cls.balloons = _policy_nodes(template.pod, reader.balloons, rules)
        cls.isolated = _policy_nodes(template.pod, reader.isolated, rules)
        cls.features = required_features(template.pod.spec) if declaring else ()
        cls.os = (template.pod.spec.os.name if template.pod.spec.os else None) or ""
        cls.priority = priority if template.gang is None else lowest[template.gang]
        cls.scores = tuple((each.name, row) for each in scores if (row := each.row(template.pod)) is not None)
        key = (signature(cls), template.apart, tuple(sorted(template.demand.items())), template.supposed, hit)
        same = read[template.reading, hit] = found.setdefault(key, (cls, template.demand, template.supposed))[0]
        if same is not cls:
            same.pods.extend(cls.pods)
    for cls, _, _ in found.values():
        cls.pods.sort()
    classes, demand, supposed = zip(*found.values(), strict=True) if found else ((), (), ())
    return list(classes), list(demand), list(supposed)


def _policy_nodes(pod: Pod, policies: Balloons | IsolatedCPUs | None, rules: NodeRules) -> int | None:
    """Return the set of nodes whose policies can create the pod's containers, or None for all nodes."""
    mask = policies.allowed(pod) if policies is not None else None
    return None if mask is None else rules.node_set(mask)


def _pod_class(template: ClassTemplate, rules: NodeRules, hits: Bools, *, prefers: bool) -> PodClass:
    """Return the class of a single template. ``hits`` is bool[M, P]."""
    pod = template.pod
    affinity = None
    if template.affinity is not None:
        full, keys = template.affinity
        affinity = RequiredAffinity(full, keys, bool(hits[full, template.profile]))
    keys = tuple(c.topologyKey for _, c in template.spread)
    spread = [
        Spread(
            matcher, c.topologyKey, c.maxSkew, c.minDomains or 1, rules.eligible(pod, c, keys),
            matcher is not None and bool(hits[matcher, template.profile]),
        )
        for matcher, c in template.spread
    ]  # fmt: skip
    return PodClass(
        pod=pod,
        pods=list(template.pods),
        profile=template.profile,
        priority=pod.spec.priority or 0,
        node_rule=rules.node_rule(pod),
        tolerations=rules.tolerations(pod),
        node_name=pod.spec.nodeName if is_mirror(pod) else None,
        anti=template.anti,
        affinity=affinity,
        spread=tuple(dict.fromkeys(spread)),
        ports=host_ports(pod.spec),
        claims=claim_keys(pod),
        prefers=rules.prefers(pod) if prefers else (),
        pulls=template.pulls,
        soft_spread=tuple(
            dict.fromkeys(SoftSpread(m, c.topologyKey, c.maxSkew, rules.eligible(pod, c, keys)) for m, c, keys in template.soft_spread)
        ),
        containers=template.containers,
        gang=template.gang,
        refused=template.refused,
        devices=template.devices,
    )


def _groups(
    snapshot: Snapshot, nodes: NodeColumns, node_index: Mapping[str, int], gangs: Sequence[Gang], classes: Sequence[PodClass]
) -> list[GangGroup]:
    """Return the gangs in terms of pod classes."""
    members: list[list[int]] = [[] for _ in gangs]
    for g, cls in enumerate(classes):
        if cls.gang is not None:
            members[cls.gang].append(g)
    groups = []
    for gang, own in zip(gangs, members, strict=True):
        key = gang.key if gang.required else None
        home: set[int] = set()
        if key is not None and gang.bound:
            codes, _ = nodes.column(key)
            home = {int(codes[node_index[snapshot.pods[i].spec.nodeName or ""]]) for i in gang.bound}  # -1 for nodes without the key
        groups.append(GangGroup(gang.name, tuple(own), gang.needed, key, tuple(sorted(home))))
    return groups


def _trees(snapshot: Snapshot, policy: Policy) -> dict[str, NumaTree]:
    """Return the NUMA topologies by node name.

    Raises:
        InputError: A NodeResourceTopology cannot be read.
    """
    listed = node_topologies(policy, snapshot)
    if not listed:
        return {}
    trees, problems = {}, []
    for name, topology in listed.items():
        try:
            tree = node_topology.tree(topology)
        except node_topology.TopologyError as error:
            problems.append(f"NodeResourceTopology {name}: {error}")
        else:
            if tree is not None:
                trees[name] = tree
    if problems:
        raise InputError(problems)
    return trees
