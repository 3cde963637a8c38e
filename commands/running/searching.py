"""The course of a search: its options, thread and clock, ^C, and the end of the command."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeVar

import click

from kubestow.checker.violation import InternalFault
from kubestow.commands.common.exit_codes import INTERRUPTED, VIOLATED, fail, say
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams
from kubestow.commands.core.given import Given, WhatIf, given
from kubestow.commands.core.reading import Reading
from kubestow.commands.running import inputs
from kubestow.commands.running.interrupts import in_thread
from kubestow.models.documents.placement import Unmodelled
from kubestow.models.documents.policy import Policy
from kubestow.report.documents.results import Result
from kubestow.report.terminal import progress
from kubestow.solver.runtime.options import Options

_T = TypeVar("_T")


@dataclass(frozen=True)
class SearchRun:
    """A running command that searches.

    Attributes:
        streams: Inputs and outputs.
        started: Start on the monotonic clock, in seconds.
        stop: Event that ^C sets.
    """

    streams: Streams
    started: float = field(default_factory=time.monotonic)
    stop: threading.Event = field(default_factory=threading.Event)

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started

    def read(self, policy: Policy, changes: WhatIf, how: Reading | None = None) -> Given:
        """Read the snapshot, apply the changes, and print warnings. ``how``: None for a snapshot whose data the policy needs."""
        snapshot = inputs.load(self.streams, how if how is not None else Reading(policy, empty=changes.buys))
        return given(snapshot, changes, self.started, policy)

    def search(self, solve: Callable[..., _T]) -> _T:
        """Run ``solve(on_progress=, stop=, began=)`` with a progress display, and return its result."""
        with progress.choose(quiet=self.streams.quiet, verbose=self.streams.verbose) as display:
            work = partial(solve, on_progress=display.update, stop=self.stop, began=self.started)
            try:
                return in_thread(work, self.stop, display.say)
            except InternalFault as error:
                fail([f"internal fault, please report it: {error}"])

    def accept(self, result: Result) -> None:
        """End the command if there is nothing to write, or with --strict if something is not modelled."""
        if self.stop.is_set() and getattr(result, "status", None) == "unknown":
            fail(["interrupted before a result was found; nothing was written"], INTERRUPTED)
        self.refuse(result.unmodelled)

    def refuse(self, unmodelled: Sequence[Unmodelled]) -> None:
        """End the command if --strict was given and something is not modelled."""
        if self.streams.strict and unmodelled:
            fail([f"not modelled: {u.pod}: {u.field}: {u.effect}" for u in unmodelled], VIOLATED)

    def end(self, code: int, line: str = "") -> NoReturn:
        """Print a summary line and exit with this code, or with 130 after ^C."""
        if line and not self.streams.quiet:
            say(line)
        raise click.exceptions.Exit(INTERRUPTED if self.stop.is_set() else code)


def search_options(search: SearchChoices, choices: PolicyChoices, policy: Policy, **more: Any) -> Options:
    """Return the search options for the command line."""
    gated, exempt = choices.include_gated, choices.daemon_namespaces
    return Options(**asdict(search), include_gated=gated, daemon_namespaces=exempt, policy=policy, **more)


def warn_of_gates(streams: Streams, choices: PolicyChoices, step: str) -> None:
    """Warn that Bindings of gated pods are refused. ``step``: the user's next action, for the message."""
    if streams.wants("kubectl") and choices.include_gated:
        inputs.warn([f"the API server binds no pod that has scheduling gates; remove them before you {step}"], streams)
