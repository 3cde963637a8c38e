"""LimitRanger, ResourceQuota, PodNodeSelector and PodTolerationRestriction, which prevent a pod's creation.

Source: :mod:`kubestow.models.cluster.admission`.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from kubestow.models.admission import namespace_annotations as namespace_admission
from kubestow.models.cluster import admission
from kubestow.models.cluster.cluster import Ints
from kubestow.models.kube.selectors import Bools
from kubestow.solver.rules.node_static.words import RefusedWords


class _Admission(RefusedWords):
    """A pod that the API server would refuse goes to no node. An existing pod has been admitted."""

    reads = ("refused",)

    def alike(self, g: int) -> Hashable:
        return self.cluster.classes[g].refused

    def never(self, g: int) -> Bools:
        refused = self.cluster.classes[g].refused
        return np.full(self.cluster.n_nodes, refused is not None and refused[0] == self.name)

    def broken_by(self, g: int, nodes: Ints) -> Bools:
        return np.zeros(len(nodes), dtype=bool)

    def message(self, g: int, rejected: Bools) -> str:
        refused = self.cluster.classes[g].refused
        return f"cannot be created: {refused[1] if refused else ''}"


class LimitRanger(_Admission):
    """A LimitRange of the namespace forbids such a container or pod."""

    name = admission.LIMITS
    drop_rank = 200


class ResourceQuota(_Admission):
    """A ResourceQuota of the namespace is exhausted."""

    name = admission.QUOTA
    helped_by_quota = True
    drop_rank = 230


class PodNodeSelector(_Admission):
    """The node selector of the pod contradicts that of its namespace."""

    name = namespace_admission.SELECTOR_PLUGIN
    drop_rank = 210


class PodTolerationRestriction(_Admission):
    """The namespace of the pod does not allow one of its tolerations."""

    name = namespace_admission.TOLERATIONS_PLUGIN
    drop_rank = 220
