"""The words of kube-scheduler for nodes that a plugin rejects, and whether evicting pods could help there."""

from __future__ import annotations

from typing import NamedTuple

from kubestow.models.kube.selectors import Bools


class Refusal(NamedTuple):
    """A reason of a plugin, as kube-scheduler prints it.

    Attributes:
        text: The reason, such as ``Insufficient cpu``.
        nodes: bool[N], the rejected nodes.
        is_lasting: bool[N], nodes where evicting pods cannot help (kube-scheduler: UnschedulableAndUnresolvable).
    """

    text: str
    nodes: Bools
    is_lasting: Bools
