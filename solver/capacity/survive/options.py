"""Options of ``survive``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NODE: Final = "node"
ZONE: Final = "zone"
ZONE_KEY: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class SurviveOptions:
    """The failures in question.

    Attributes:
        fail: ``node``, ``zone`` (``topology.kubernetes.io/zone``), or the label key whose values are the
            domains.
        at_once: Exact number of nodes or domains that fail together.
        priority: Lowest priority of the pods that must return; None for all pods.
        preemption: True if pods below ``priority`` may be preempted. Without ``priority`` there are none.
    """

    fail: str = NODE
    at_once: int = 1
    priority: int | None = None
    preemption: bool = False

    def __post_init__(self) -> None:
        if self.at_once < 1:
            raise ValueError("at_once must be at least 1")

    @property
    def key(self) -> str | None:
        """The label key whose values are the domains; None if nodes fail."""
        return {NODE: None, ZONE: ZONE_KEY}.get(self.fail, self.fail)
