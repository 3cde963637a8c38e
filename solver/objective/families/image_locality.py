"""Images that nodes have (:mod:`kubestow.models.cluster.node_scores.image_locality`)."""

from __future__ import annotations

from kubestow.models.cluster.node_scores.image_locality import MAX_SCORE
from kubestow.solver.objective.families.node_points import NodeScorePoints


class ImageLocality(NodeScorePoints):
    """kube-scheduler's ImageLocality."""

    name, words = "imageLocality", "images that its node does not have"

    def scale(self) -> int:
        return MAX_SCORE if self.present else 0
