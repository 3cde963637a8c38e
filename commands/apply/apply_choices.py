"""The options of ``kubestow apply``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ApplyChoices:
    """The options of ``kubestow apply`` that concern the run and the cluster.

    Attributes:
        yes: True to change the cluster.
        dry_run: True to only print what would be done.
        wave: The last wave of this run.
        pause_between: Seconds between waves; 0 to ask the user; None for no pause.
        timeout: Seconds that a step may take.
        resume: True to continue the run of the journal.
        serve: True to keep running and handle later pods.
        undo: True to delete created objects if their pods are not all placed in time.
        until_done: True to plan again when the cluster has changed.
        rounds: Maximum number of plans of ``until_done``.
        evict_again: True if later rounds may evict a pod again.
        context: Context of the kubeconfig.
        kubeconfig: Path of the kubeconfig.
    """

    yes: bool = False
    dry_run: bool = False
    wave: int | None = None
    pause_between: float | None = None
    timeout: float = 600.0
    resume: bool = False
    serve: bool = False
    undo: bool = False
    until_done: bool = False
    rounds: int = 5
    evict_again: bool = False
    context: str | None = None
    kubeconfig: str | None = None
