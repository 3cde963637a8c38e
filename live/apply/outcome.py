"""The outcome of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from kubestow.live.apply.steps import RunStep
from kubestow.models.snapshot.snapshot import Snapshot

#: Maximum number of pods and differences that one message names.
MAX_LISTED: Final = 3


class EndDifferences(Protocol):
    """Differences between the cluster and the planned end state, as sentences: missed by the run, and made by others."""

    @property
    def missed(self) -> list[str]: ...
    @property
    def foreign(self) -> list[str]: ...


#: Compares the cluster with the planned end state, given the current names of the document's pods.
EndJudge = Callable[[Snapshot, Mapping[str, str]], EndDifferences]


@dataclass
class RunOutcome:
    """The outcome of a run.

    Attributes:
        state: ``done`` if all steps are done, ``paused`` after the requested wave; otherwise the run ended early.
        done: Finished steps.
        remaining_steps: Remaining steps.
        reasons: Reasons for the end.
        standing: The state of pods whose steps were begun and not finished.
        missed: Differences from the planned end state that the run left.
        foreign: Differences from the planned end state that others made.
        not_opened: Nodes that are still closed.
    """

    state: Literal["done", "paused", "stopped", "interrupted"]
    done: list[RunStep] = field(default_factory=list)
    remaining_steps: list[RunStep] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    standing: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    not_opened: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """The outcome as a sentence."""
        count = f"{len(self.done)} of {len(self.done) + len(self.remaining_steps)} steps are done"
        reasons = [reason for reason in self.reasons if reason != self.state]
        standing = [sentence for sentence in self.standing if sentence not in reasons]
        more = [f"and {len(standing) - MAX_LISTED} more pods that were begun"] if len(standing) > MAX_LISTED else []
        return "; ".join([count, *reasons, *standing[:MAX_LISTED], *more])
