"""NodePorts in plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kubestow.models.kube.pod_spec import ANY, ports_clash
from kubestow.solver.rules.node_ports.rule import NodePorts
from kubestow.solver.rules.plan_state import PlanStep
from kubestow.solver.rules.plans import IndependentFace
from kubestow.solver.rules.waves import Keys, SymmetricGuard

if TYPE_CHECKING:
    from kubestow.solver.rules.end_states import EndStates


class _PortsOfWave(SymmetricGuard[NodePorts]):
    def step_keys(self, step: PlanStep) -> Keys:
        return [("port", protocol, port, step.b) for _, protocol, port in self.cluster.classes[step.g].ports if step.b >= 0]


class PortsInPlans(IndependentFace[NodePorts]):
    """Pods with the same port have to leave a node; fewer pods never hurt."""

    guard = _PortsOfWave
    monotone = True

    def conflicts(self, g: int) -> list[tuple[int, str]]:
        classes = self.rule.cluster.classes
        mine = classes[g].ports
        return [(h, "") for h, cls in enumerate(classes) if ports_clash(mine, cls.ports)] if mine else []

    def encode_end(self, states: EndStates) -> None:
        model, rule, name = states.model, self.rule, self.rule.name
        classes = rule.cluster.classes
        asking = [g for g, cls in enumerate(classes) if cls.ports]
        against = {g: [h for h in asking if ports_clash(classes[g].ports, classes[h].ports)] for g in asking}
        spoilt = {n for _, n in states.cells(name)}
        for port in sorted({port for g in asking for port in classes[g].ports}) if not model.partial else ():
            group = [g for g in asking if classes[g].ports & {port, (ANY, *port[1:])}]
            for n in sorted({n for g in group for n in model.nodes_of(g).tolist()} - spoilt):
                model.model.add(model.sum(model.cells(group, [n])) <= 1)
        for g in asking:
            blocked = rule.never(g)
            for n in model.nodes() if model.partial else sorted(spoilt):
                if not (model.upper(g, n) or model.unmoved[g, n]):
                    continue
                clear = model.model.new_bool_var("")
                states.at_most(against[g], np.array([n]), int(blocked[n]), 1, clear)
                for literal in model.arriving([g], np.array([n])):
                    model.model.add_implication(literal, clear)
                if states.was_broken(name, g, n):
                    states.broken[g, n, name] = [clear]
