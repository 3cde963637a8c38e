"""``kubestow solve``: a Placement of pending pods, or of a rolling update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from kubestow.commands.common import options
from kubestow.commands.common.exit_codes import refuse
from kubestow.commands.common.help_text import GroupedCommand
from kubestow.commands.common.options import PolicyChoices, SearchChoices, Streams, requested

#: What-if edits, which change the snapshot instead of adding manifests.
_WHAT_IF = ("addNodes", "removeNodes", "removeDomains", "replicas", "buy")


@dataclass(frozen=True)
class SolveRequest:
    """The options of ``kubestow solve``. ``edits``: what-if edits by field of :class:`kubestow.models.documents.placement.Edits`."""

    streams: Streams
    search: SearchChoices
    choices: PolicyChoices
    rollout: str | None
    gates: bool
    catalogue: str | None
    edits: dict[str, Any]

    @property
    def workload(self) -> str | None:
        """The workload to update; None without a rollout."""
        return None if self.rollout is None else self.rollout.partition("=")[0]

    @property
    def template(self) -> str | None:
        """The file of the new template; None for the current template, or without a rollout."""
        return (self.rollout or "").partition("=")[2] or None

    def check(self) -> None:
        """Refuse contradictory options."""
        streams, edits, rollout = self.streams, self.edits, self.rollout
        kubectl, whole = streams.wants("kubectl"), self.search.from_scratch
        refuse(
            kubectl and whole, "-f kubectl cannot move bound pods, as --from-scratch does: that needs evictions, and `kubestow rebalance`"
        )
        refuse(
            kubectl and (streams.manifests or rollout or any(edits.values())),
            "-f kubectl cannot carry out what is not in the cluster yet: manifests, rollouts and what-if edits",
        )
        refuse(
            streams.wants("manifests") and (not streams.manifests or whole or any(edits[name] for name in _WHAT_IF)),
            "-f manifests needs -w, and a cluster as it is: neither --from-scratch nor what-if edits",
        )
        refuse(
            rollout is not None and (whole or streams.manifests or edits["partial"]),
            "--rollout goes with neither -w, --partial nor --from-scratch",
        )
        refuse(self.gates and not streams.wants("manifests"), "--gates requires -f manifests")
        unnamed = rollout is not None and (not self.workload or (self.template is None and "=" in rollout))
        refuse(unnamed, f"--rollout: {rollout!r} is not of the form NAME or NAME=FILE")


@click.command(cls=GroupedCommand)
@options.snapshots
@options.table_output("Placement")
@options.search
@click.option("--from-scratch", is_flag=True, help="Also place all movable bound pods again.")
@options.manifests("-w", "--manifests", "--workload")
@click.option("--gates", is_flag=True, help="With -f manifests: add a scheduling gate that `kubestow apply --serve` removes pod by pod.")
@options.edits
@options.catalogue("for --buy and for remedies that buy nodes")
@click.option(
    "--rollout",
    metavar="NAME[=FILE]",
    help="Simulate a rolling update of a workload to the pod template in FILE.  [default FILE: its current template]",
)
@click.option(
    "--strategy",
    type=click.Choice(["spread", "pack", "none"]),
    help="Tie-break after all preferences.  [default: the policy's, else spread]",
)
@options.scoped
@requested(SolveRequest, streams=Streams, search=SearchChoices, choices=PolicyChoices, edits=dict)
def solve(request: SolveRequest) -> None:
    """Place pending pods, and the pods of manifests given with -w.

    Exit codes: 0 if all pods are placed, 3 if some are not (the result is written), 130 if interrupted (the best result so far is
    written).
    """
    request.check()
    from kubestow.commands.solve.run import run

    run(request)
