"""A RebalancePlan as a bash script that carries it out: evictions through the Eviction API, one fenced target node at a time.

The script holds what the plan expects of the cluster, and stops where the cluster is not like that. What its statements (``pod``,
``crew``, ``move``, ...) do is bash: :data:`report.kubectl.checks_text.WORLD` and :data:`report.kubectl.steps_text.STEPS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from shlex import quote
from typing import Final

from models.disruption.scheduler_needed import scheduler_needed
from models.documents.rebalance_plan import Eviction, Move, RebalancePlan
from models.kube import objects
from models.kube.objects import Pod, pod_key
from models.kube.selectors import tolerates
from models.snapshot.snapshot import Snapshot
from report.documents.output import counted, one_line
from report.kubectl.checks_text import WORLD
from report.kubectl.steps_text import STEPS
from report.terminal.placement import examples
from report.terminal.plan_waves import sizes, steps
from report.terminal.rebalance_plan import verdict

_HEADER: Final = """\
#!/usr/bin/env bash
# Carries out a rebalancing plan of kubestow with kubectl's current context. Needs bash 4.4, kubectl and coreutils.
#
#   bash FILE [SNAPSHOT...]    with the snapshot's files it first makes sure that the plan is of that snapshot
#   DRY_RUN=1 bash FILE        looks at the cluster, changes nothing, and prints the commands that would
#   WAIT_SECONDS, RETRY_SECONDS, POLL_SECONDS: see below
#
# While it runs, all nodes but the target of the step are cordoned, and other pods that wait can go to that target only, replacements of
# evicted ones too; it opens the nodes again however it ends (after kill -9 it cannot). Before each step it looks whether pods, their
# workloads and nodes are as the plan expects them, and stops otherwise.
"""

_CORDON: Final = objects.Taint("node.kubernetes.io/unschedulable", "NoSchedule")


def script(plan: RebalancePlan, snapshot: Snapshot) -> bytes:
    """Return the script in UTF-8. ``snapshot``: the one that the plan is of: UIDs and controllers of the pods come from it.

    All that comes from plan or snapshot stands in single quotes as an argument, or with control characters spelled out in a comment.
    """
    wanted = {step.pod for step in steps(plan)}
    pods = {key: pod for pod in snapshot.pods if (key := pod_key(pod)) in wanted}
    body = [*_expectations(plan, pods, snapshot), *_waves(plan, pods, snapshot)]
    lines = [
        _HEADER + "".join(f"# {one_line(note)}\n" for note in _notes(plan, pods, snapshot)),
        WORLD.strip("\n"),
        "",
        STEPS.strip("\n"),
        "",
        f"# --- the plan {'-' * 102}",
        "",
        f"SNAPSHOT={quote(plan.snapshot.sha256)}",
        "",
        "# As a function it is read whole before it begins: an edit meanwhile changes nothing.",
        "main() {",
        *(f"  {line}" if line else "" for line in body),
        "}",
        "",
        'main "$@"',
        "exit",
    ]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _say(text: str) -> str:
    return f"say {quote(one_line(text))}"


# --- the header -------------------------------------------------------------------------------------------------------


def _notes(plan: RebalancePlan, pods: dict[str, Pod], snapshot: Snapshot) -> Iterator[str]:
    """Yield what a reader must know of these pods before the script is run."""
    placed = list(dict.fromkeys(move.pod for move in plan.moves))
    honour = [key for key in placed if key in pods and _honours_taints(pods[key])]
    if honour:
        yield ""
        yield f"{counted(len(honour), 'pod')} with topologySpreadConstraints of nodeTaintsPolicy Honor ({examples(honour)}):"
        yield "to them cordoned nodes are no domains, so that with minDomains the scheduler may refuse the target;"
        yield "the script stops after WAIT_SECONDS where a replacement finds no place."
    free = [key for key in placed if key in pods and any(tolerates(t, _CORDON) for t in pods[key].spec.tolerations or ())]
    if free:
        yield ""
        yield f"{counted(len(free), 'pod')} tolerating cordoned nodes ({examples(free)}): no fence holds them; where one lands elsewhere"
        yield "the script stops."
    bare = [
        step.pod for step in steps(plan) if step.source is not None and step.pod in pods and objects.controller_of(pods[step.pod]) is None
    ]
    if bare:
        yield ""
        yield f"{counted(len(set(bare)), 'pod')} without a controller ({examples(list(dict.fromkeys(bare)))}):"
        yield "the script creates them again from their own manifests."
    gangs = [move.pod for move in plan.moves if move.gang is not None and _let_in(move, pods, snapshot)]
    if gangs:
        yield ""
        yield f"{counted(len(gangs), 'pending gang member')} with volumes or claims that the scheduler has to see to ({examples(gangs)}):"
        yield "those of one gang and wave are let in together, all their targets open at once; where one takes the target of another,"
        yield "or the scheduler waits for members that come later, the script stops."


def _honours_taints(pod: Pod) -> bool:
    return any(constraint.nodeTaintsPolicy == "Honor" for constraint in pod.spec.topologySpreadConstraints or ())


# --- what the plan expects --------------------------------------------------------------------------------------------


def _expectations(plan: RebalancePlan, pods: dict[str, Pod], snapshot: Snapshot) -> Iterator[str]:
    yield 'same_snapshot "$@"'
    yield _say(f"{plan.status}: {verdict(plan)}" if pods else verdict(plan))
    if plan.drain:
        yield _call("drain", plan.drain)
    if not pods:
        yield _say("There is nothing to move.")
        if plan.drain:
            yield "begin"
        return
    yield f"STEPS={len(plan.moves) + len(plan.evictions)}"
    yield ""
    yield "# pod NAMESPACE/NAME NODE UID OWNER"
    for key, pod in pods.items():
        yield _call("pod", [key, pod.spec.nodeName or "-", pod.metadata.uid or "-", _owner(pod)])
    yield ""
    yield "# crew NAMESPACE OWNER [NODE PODS]..."
    for (namespace, owner), nodes in _crews(pods.values(), snapshot).items():
        yield _call("crew", [namespace, owner, *(text for node, k in sorted(nodes.items()) for text in (node, str(k)))])
    yield ""
    yield _call("begin", dict.fromkeys(move.to for move in plan.moves))


def _owner(pod: Pod) -> str:
    owner = objects.controller_of(pod)
    return "-" if owner is None else f"{owner.kind}/{owner.name}"


def _crews(moved: Iterable[Pod], snapshot: Snapshot) -> dict[tuple[str, str], Counter[str]]:
    """Return the nodes that pods of the workloads of ``moved`` run on, by namespace and owner. Terminating and ended pods do not
    count: they may vanish at any time."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for pod in moved:
        if (owner := _owner(pod)) != "-":
            found[pod.metadata.namespace or "default", owner] = Counter()
    for pod in snapshot.pods:
        crew = found.get((pod.metadata.namespace or "default", _owner(pod)))
        if crew is not None and pod.spec.nodeName and not objects.is_terminal(pod) and not objects.is_terminating(pod):
            crew[pod.spec.nodeName] += 1
    return found


def _call(name: str, arguments: Collection[str]) -> str:
    return " ".join([name, *map(quote, arguments)])


# --- waves ------------------------------------------------------------------------------------------------------------


def _waves(plan: RebalancePlan, pods: dict[str, Pod], snapshot: Snapshot) -> Iterator[str]:
    """Yield per wave: target by target what moves there, then the bindings, all at once, then what the scheduler is to let in, gang by
    gang.

    Pods that go for good do so last: their replacements stay pending, and would slip through the fence of a target that comes after."""
    by_wave: dict[int, list[Move | Eviction]] = {}
    for step in steps(plan):
        by_wave.setdefault(step.wave, []).append(step)
    for wave, members in by_wave.items():
        yield ""
        yield _call("wave", [str(wave), sizes(members)])
        targets: dict[str, list[Move]] = {}
        bindings: list[Move] = []
        let_in: dict[str, list[Move]] = {}
        evictions: list[Eviction] = []
        for step in members:
            if isinstance(step, Eviction):
                evictions.append(step)
            elif step.source is not None:
                targets.setdefault(step.to, []).append(step)
            elif _let_in(step, pods, snapshot):
                let_in.setdefault(step.gang or step.pod, []).append(step)
            else:
                bindings.append(step)
        for target, arriving in targets.items():
            yield from _reasons(arriving)
            yield _call("move", [target, *(move.pod for move in arriving)])
        for name, group in [("bind", bindings), *(("let_in", gang) for gang in let_in.values())]:
            if group:
                yield from _reasons(group)
                yield _call(name, [text for move in group for text in (move.pod, move.to)])
        if evictions:
            yield from _reasons(evictions)
            yield _call("evict", [step.pod for step in evictions])


def _reasons(members: Iterable[Move | Eviction]) -> Iterator[str]:
    for reason in dict.fromkeys(step.reason for step in members if step.reason):
        yield f"# {one_line(reason)}"


def _let_in(move: Move, pods: dict[str, Pod], snapshot: Snapshot) -> bool:
    """Return whether the scheduler must bind a pending pod: a Binding object would leave out that it has volumes provisioned and claims
    allocated."""
    pod = pods.get(move.pod)
    if move.source is not None or pod is None:
        return False
    return scheduler_needed(pod, snapshot) is not None
