"""The fixed inputs of the comparison: command lines, and the files that they read.

A path below ``instances/`` or ``tests/`` is a file of the checkout before the change, one below ``shared/`` is made here: written out
(``WRITTEN``), or by a command of the checkout before the change (``MADE``). Both sides read copies of the same files at the same relative
paths. Time limits are small but for commands without ``--deterministic``, which must never reach theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

RULES = "instances/rules"
DATA = "tests/benchmarks/data"
GANG = "instances/gang-mutual.yaml -w instances/gang-mutual-workload.yaml"
ZONE = "instances/spread-infeasible-zone.yaml -w instances/spread-infeasible-zone-workload.yaml"

POLICY = """\
strategy: pack
hardPodAffinityWeight: 3
multipliers: {podAffinity: 2, topologySpread: 5}
"""

QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: default}
spec: {hard: {pods: "1", requests.cpu: "1"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: usual, namespace: default}
spec: {limits: [{type: Container, defaultRequest: {cpu: 500m}}]}
"""


@dataclass(frozen=True)
class Input:
    """A command line to be run on both sides. ``form`` is the value of ``-f``."""

    name: str
    command: str
    form: str = "json"


WRITTEN: dict[str, str] = {"shared/policy.yaml": POLICY, "shared/quota.yaml": QUOTA}

MADE: dict[str, str] = {
    "shared/mixed.json": "generate --nodes 12 --pods 120 --bound 60 --fill 90 --numa 25 --seed 2",
    "shared/planted.json": "generate --nodes 6 --pods 30 --planted 100 --seed 1",
    "shared/tight.json": "generate --nodes 8 --pods 64 --planted 100 --rules 80 --seed 2",
    "shared/worn.json": "generate --nodes 12 --pods 90 --fill 45 --worn 40 --seed 3",
    "shared/placement.json": "solve instances/quickstart.yaml",
    "shared/plan.json": "rebalance instances/rebalance-drain.yaml --drain n1 --goal improve",
}

SOLVE = (
    Input("solve-exact", f"solve {DATA}/rules-16x8-95-s1.json.gz --engine exact --strategy spread --time-limit 0.5"),
    Input("solve-greedy", f"solve {DATA}/pack-16x8-100-s0.json.gz --engine greedy --time-limit 0.5"),
    Input("solve-lns", f"solve {DATA}/soft-60-70-s1.json.gz --engine lns --time-limit 0.3"),
    Input("solve-auto-soft", f"solve {DATA}/soft-60-70-s2.json.gz --time-limit 0.3"),
    Input("solve-auto-full", f"solve {DATA}/pack-16x8-100-s1.json.gz --time-limit 0.5"),
    Input("solve-pack", f"solve {DATA}/pack-8x4-100-s1.json.gz --engine lns --strategy pack --time-limit 0.5"),
    Input("solve-none", "solve shared/mixed.json --strategy none --time-limit 0.5"),
    Input("solve-policy", "solve instances/quickstart.yaml --policy shared/policy.yaml"),
    Input("solve-from-scratch", "solve instances/rebalance-consolidate.yaml --from-scratch --strategy pack"),
    Input("solve-add-nodes", f"solve {RULES}/priority.yaml --add-nodes 2:narrow"),
    Input("solve-remove-node", "solve instances/quickstart.yaml --remove-node a2"),
    Input("solve-include-gated", f"solve {RULES}/scheduling-gates.yaml --include-gated"),
    Input("solve-daemon-namespaces", "solve instances/seeds/anti-affinity-daemons.yaml --daemon-namespaces kube-system"),
    Input("solve-shorthand", "solve instances/peter-sheep-wolf.yaml --shorthand symmetric", form="yaml"),
    Input("solve-numa", "solve instances/two-socket-joint.yaml"),
    Input("solve-volumes", f"solve {RULES}/volume-binding.yaml"),
    Input("solve-spread", f"solve {RULES}/pod-topology-spread.yaml"),
    Input("solve-planted-left", "solve shared/planted.json --remove-node standard-00000 --time-limit 0.3"),
    Input("solve-planted-greedy", "solve shared/tight.json --engine greedy --remove-node standard-00001 --seed 7 --time-limit 0.3"),
    Input("solve-kubectl", "solve instances/quickstart.yaml", form="kubectl"),
)

GANGS_AND_ROLLOUTS = (
    Input("gang-what-if", f"solve {GANG} --remove-domain topology.kubernetes.io/zone=zone-a --replicas a=1"),
    Input("gang-quota", f"solve {GANG} -w shared/quota.yaml"),
    Input("gang-infeasible", f"solve {ZONE}"),
    Input("gang-partial", f"solve {ZONE} --partial"),
    Input("rollout-complete", "solve instances/rollout-three-nodes.yaml --rollout app"),
    Input("rollout-deadlock", "solve instances/rollout-deadlock.yaml --rollout app"),
)

REBALANCE = (
    Input("rebalance-repair", "rebalance instances/rebalance-repair.yaml --goal repair --goal improve"),
    Input("rebalance-max-moves", "rebalance instances/rebalance-swap.yaml --goal repair --max-moves 3"),
    Input("rebalance-drain", "rebalance instances/rebalance-drain.yaml --drain n1 --goal improve"),
    Input("rebalance-stuck", "rebalance instances/rebalance-stuck.yaml --drain n1"),
    Input("rebalance-consolidate", "rebalance shared/worn.json --goal consolidate --time-limit 0.5"),
    Input("rebalance-admit", "rebalance instances/rebalance-admit.yaml --goal admit --allow-eviction"),
)

EXPLAIN_AND_AUDIT = (
    Input("explain-plain", f"explain {RULES}/inter-pod-anti-affinity.yaml --time-limit 120"),
    Input("explain-per-node", "explain shared/mixed.json --per-node --time-limit 120", form="yaml"),
    Input("explain-node", f"explain {RULES}/taint-toleration.yaml --node gpu --time-limit 120"),
    Input("explain-pod", f"explain {RULES}/node-ports.yaml --pod default/exporter --time-limit 120"),
    Input("explain-workload", f"explain {ZONE} --workload web --time-limit 120"),
    Input("explain-affinity", "explain instances/peter-sheep-wolf.yaml --affinity farm/meadow"),
    Input("audit-json", "audit instances/rebalance-repair.yaml --time-limit 300"),
    Input("audit-junit", "audit instances/rollout-deadlock.yaml shared/mixed.json --fail-on warning --time-limit 300", form="junit"),
    Input("audit-yaml", "audit instances/audit/KS906-stage-not-survived.yaml --fail-on warning --time-limit 300", form="yaml"),
)

VERIFY_AND_GENERATE = (
    Input("verify-plan", "verify instances/rebalance-drain.yaml --result shared/plan.json"),
    Input("verify-violations", f"verify {RULES}/priority.yaml --result shared/placement.json"),
    Input("generate-mixed", "generate --nodes 30 --pods 300 --bound 50 --numa 40 --preferences 60 --seed 5"),
    Input("generate-planted", "generate --nodes 16 --pods 160 --planted 97 --seed 3"),
    Input("generate-worn", "generate --nodes 20 --pods 160 --fill 45 --worn 40 --seed 4", form="yaml"),
)

INPUTS: tuple[Input, ...] = SOLVE + GANGS_AND_ROLLOUTS + REBALANCE + EXPLAIN_AND_AUDIT + VERIFY_AND_GENERATE
