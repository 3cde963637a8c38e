"""The input of a request: a snapshot before and after manifests and what-if edits, and what results record of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kubestow.commands.core.reading import Manifests, stamp
from kubestow.commands.core.wrong_use import WrongUse
from kubestow.models.catalogue.catalogue import Catalogue
from kubestow.models.documents.placement import Edits, Placement, Unmodelled
from kubestow.models.documents.policy import DEFAULT, Policy
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import Snapshot
from kubestow.models.workloads.expand import Expansion
from kubestow.report.documents.results import Result
from kubestow.solver.runtime.options import Options


@dataclass(frozen=True)
class WhatIf:
    """The changes of a snapshot, from :func:`what_if`.

    Attributes:
        manifests: Manifests whose pods are added.
        edits: What-if edits; None without any.
        catalogue: Node shapes on offer, for purchases and for remedies.
    """

    manifests: Manifests = field(default_factory=Manifests)
    edits: Edits | None = None
    catalogue: Catalogue | None = None

    @property
    def buys(self) -> bool:
        """True if nodes are bought, so that the snapshot may have none."""
        return self.edits is not None and bool(self.edits.buy)

    @property
    def remaining_catalogue(self) -> Catalogue | None:
        """The catalogue without the purchases of the edits, which must be valid."""
        return self.catalogue.without(self.edits.buy if self.edits is not None else ()) if self.catalogue is not None else None

    def edit(self, snapshot: Snapshot) -> Expansion:
        """Return the snapshot with these changes. Raises the errors of :meth:`kubestow.commands.core.reading.Manifests.edit`."""
        return self.manifests.edit(snapshot, self.edits)


def what_if(manifests: Manifests, edits: Edits | None, catalogue: Catalogue | None = None, template: str | None = None) -> WhatIf:
    """Return the changes of a snapshot. ``edits`` get the shapes of their purchases. ``template``: a further manifest.

    Raises:
        WrongUse: an edit without the option that it requires.
    """
    if edits is not None:
        if edits.partial and not (manifests.paths or template):
            raise WrongUse("--partial requires manifests, given with -w")
        if edits.buy and catalogue is None:
            raise WrongUse("--buy requires a catalogue of nodes, given with --catalogue", missing="--catalogue")
        if edits.namespace and not (manifests.paths or template):
            raise WrongUse("-n requires manifests, given with -w")
        if catalogue is not None:
            edits.shapes = catalogue.used(edits.buy)
    return WhatIf(manifests, edits, catalogue)


@dataclass(frozen=True)
class Given:
    """The input of a request, from :func:`given`. A search changes none of it.

    Attributes:
        before: The snapshot as read.
        after: The snapshot with manifests and edits.
        policy: The policy.
        edits: The edits; None without any.
        catalogue: Node shapes that can still be bought.
        workloads: The workloads of the manifests, ``Kind namespace/name``.
        unmodelled: Requests of the manifests that are not honoured.
        files: The files of the manifests, by path.
        seconds: Seconds spent on reading.
    """

    before: Snapshot
    after: Snapshot
    policy: Policy
    edits: Edits | None
    catalogue: Catalogue | None
    workloads: tuple[str, ...]
    unmodelled: tuple[Unmodelled, ...]
    files: Mapping[str, bytes]
    seconds: float

    def options(self, chosen: Options) -> Options:
        """Return the options of a search with the policy, and with what its document records of this input."""
        return replace(
            chosen,
            policy=self.policy,
            workloads=self.workloads,
            edits=self.edits,
            unmodelled=self.unmodelled,
            catalogue=self.catalogue,
        )

    def solve_options(self, chosen: Options) -> Options:
        """Return the options of a search for a Placement: :meth:`options`, with time for a tie-break that the policy chooses."""
        return self.options(replace(chosen, search_strategy=chosen.search_strategy or self.policy.strategy != "spread"))

    def sign(self, result: Result) -> None:
        """Add notes, cluster, capture time and reading time to a result of this input, and to a plan its edits."""
        sign(result, self.after, self.seconds)
        if isinstance(result, RebalancePlan):
            result.snapshot.edits = self.edits


def given(snapshot: Snapshot, changes: WhatIf, began: float, policy: Policy = DEFAULT) -> Given:
    """Return the input of a request: a snapshot that is settled, and its changes. ``began``: start on the monotonic clock.

    Raises the errors of :meth:`WhatIf.edit`.
    """
    with sources.keeping() as files:
        found = changes.edit(snapshot)
    seconds = time.monotonic() - began
    unmodelled = tuple(found.unmodelled)
    return Given(
        snapshot, found.snapshot, policy, changes.edits, changes.remaining_catalogue, tuple(found.workloads), unmodelled, files, seconds
    )


def sign(result: Result, snapshot: Snapshot, seconds: float) -> None:
    """Add a snapshot's notes, cluster and capture time to a result, and the seconds spent on reading."""
    result.notes += snapshot.notes
    stamp(result.snapshot, snapshot)
    within: Placement | None = getattr(result, "placement", None)
    if within is not None:
        stamp(within.snapshot, snapshot)
    if result.seconds is not None:
        result.seconds.load = round(seconds, 3)
