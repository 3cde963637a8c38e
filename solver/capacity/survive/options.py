"""What the caller of ``survive`` may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NODE: Final = "node"
ZONE: Final = "zone"
ZONE_KEY: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class SurviveOptions:
    """The failures that are asked about.

    ``fail``: ``node``, ``zone`` (``topology.kubernetes.io/zone``), or the label key whose values are the domains. ``at_once``: so many
    nodes or domains fail together, exactly. ``priority``: pods of at least this priority must come back (None: all). ``preemption``: pods
    of lower priority than that may be preempted; without ``priority`` there are none.
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
        """The label key whose values are the domains; None where nodes fail."""
        return {NODE: None, ZONE: ZONE_KEY}.get(self.fail, self.fail)
