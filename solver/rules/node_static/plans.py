"""NodeAffinity and TaintToleration in plans."""

from __future__ import annotations

from kubestow.solver.rules.node_static.rule import NodeAffinity, TaintToleration
from kubestow.solver.rules.plans import StaticFace


class NodeAffinityInPlans(StaticFace[NodeAffinity]):
    """Node affinity may have to hold during execution."""

    execution_fields = ("nodeAffinity",)
    selects_nodes = True


class TaintTolerationInPlans(StaticFace[TaintToleration]):
    """Taints select nodes, as labels do."""

    selects_nodes = True
