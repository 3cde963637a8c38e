"""What ``kubestow apply`` is to do, and on which cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ApplyChoices:
    """What is to happen, and on which cluster. ``pause_between``: seconds between waves, 0 for asking."""

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
