"""The remedies for NodePorts: host ports to give up."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubestow.models.cluster.cluster import Cluster
from kubestow.models.documents.placement import Remedy
from kubestow.models.kube import objects
from kubestow.models.kube.objects import Pod
from kubestow.models.kube.pod_spec import host_ports
from kubestow.models.workloads.ownership import name
from kubestow.solver.rules.base import Rule
from kubestow.solver.rules.remedies import Arguments, Idea, PodEdit, templates, with_spec


def _host_port(pod: Pod, arguments: Arguments) -> Pod:
    number, protocol = int(arguments["port"]), arguments["protocol"]

    def without(containers: list[objects.Container] | None) -> list[objects.Container] | None:
        if not containers:
            return containers
        return [
            msgspec.structs.replace(
                c,
                ports=[
                    msgspec.structs.replace(p, hostPort=None) if p.hostPort == number and (p.protocol or "TCP") == protocol else p
                    for p in c.ports
                ],
            )
            if c.ports
            else c
            for c in containers
        ]

    return with_spec(pod, containers=without(pod.spec.containers), initContainers=without(pod.spec.initContainers))


class PortRemedies(Rule):
    """Host ports to give up."""

    pod_changes = {"dropHostPort": PodEdit(_host_port, new_pods_only=True)}

    @classmethod
    def ideas(cls, cluster: Cluster) -> Iterator[Idea]:
        for owner, pod in templates(cluster):
            for _, protocol, port in sorted(host_ports(pod.spec)):
                message = f"give up host port {port}/{protocol} of {name(owner)}"
                arguments = {"workload": owner, "port": str(port), "protocol": protocol}
                yield Idea(cls.name, 7, Remedy("dropHostPort", message, arguments))
