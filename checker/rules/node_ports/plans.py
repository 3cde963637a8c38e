"""NodePorts in plans: more pods on a node only take more ports, so moving pods count on both of their nodes."""

from __future__ import annotations

from collections.abc import Sequence

from kubestow.checker.rules.node_ports.rule import NodePorts, Port
from kubestow.checker.rules.plans import IndependentFace


class PortsInPlans(IndependentFace[Sequence[Port]]):
    """The host ports of running pods."""

    of = NodePorts
