"""How a run ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from kubestow.live.apply.steps import Step
from kubestow.models.snapshot.snapshot import Snapshot

#: Pods and differences that one message names.
LISTED: Final = 3


class End(Protocol):
    """How a cluster differs from the end that a document describes: what the run missed, and what others did. Sentences."""

    @property
    def missed(self) -> list[str]: ...
    @property
    def foreign(self) -> list[str]: ...


#: Compares the cluster once all is done with the document; the names of the pods that stand for the document's are given as well.
EndJudge = Callable[[Snapshot, Mapping[str, str]], End]


@dataclass
class Outcome:
    """``state``: ``done``: all steps are; ``paused``: those up to the wave that was asked for; else the run ended before. ``reasons``: why;
    ``standing``: what became of pods that were begun and are not done; ``missed``, ``foreign``: in which the cluster is not as the document
    says it is in the end, by the run and by others; ``not_opened``: nodes that are still closed."""

    state: Literal["done", "paused", "stopped", "interrupted"]
    done: list[Step] = field(default_factory=list)
    left: list[Step] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    standing: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    not_opened: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """Return in a sentence how the run ended."""
        count = f"{len(self.done)} of {len(self.done) + len(self.left)} steps are done"
        reasons = [reason for reason in self.reasons if reason != self.state]
        standing = [sentence for sentence in self.standing if sentence not in reasons]
        more = [f"and {len(standing) - LISTED} more pods that were begun"] if len(standing) > LISTED else []
        return "; ".join([count, *reasons, *standing[:LISTED], *more])
