"""The document to apply and its snapshot, checked before anything else happens."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from kubestow.commands.apply.apply_choices import ApplyChoices
from kubestow.commands.common.exit_codes import VIOLATED, fail
from kubestow.commands.common.options import Streams
from kubestow.commands.core.reading import Reading
from kubestow.commands.running import inputs, judging
from kubestow.models.documents.placement import Placement
from kubestow.models.documents.rebalance_plan import RebalancePlan
from kubestow.models.execution.template_nodes import TemplateNodes, from_placement, template_nodes
from kubestow.models.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Reviewed:
    """A document that holds for its snapshot.

    Attributes:
        document: The placement or plan.
        path: File of the document.
        digest: SHA-256 of its text.
        snapshot: The snapshot with the document's edits and manifests.
        templates: Workloads of the manifests with their nodes.
        choices: Options of the run.
        streams: Inputs and outputs.
    """

    document: Placement | RebalancePlan
    path: str
    digest: str
    snapshot: Snapshot
    templates: tuple[TemplateNodes, ...]
    choices: ApplyChoices
    streams: Streams


def read(streams: Streams, choices: ApplyChoices) -> Reviewed:
    """Read the document and its snapshot. End the command if the document is not valid for the snapshot.

    Without a snapshot (``--serve --yes``) the workloads are derived from the names of their pods. Every release is checked on the cluster
    in any case.
    """
    path = str(streams.result)
    document, digest = judging.read_with_digest(path, streams, "carried out")
    if not isinstance(document, Placement | RebalancePlan):
        fail([f"{path}: kind: expected Placement or RebalancePlan, found {document.kind}"])
    if not streams.snapshots:
        known = tuple(from_placement(document)) if isinstance(document, Placement) else ()
        return Reviewed(document, path, digest, Snapshot(), known, choices, streams)
    before = inputs.load(streams, Reading(result=document))
    stated = copy.copy(document.snapshot)
    # Later checks use the same version and gates, even if the document's version of kubestow did not record them.
    document.snapshot.kubernetesVersion, document.snapshot.featureGates = before.gates.version, dict(before.gates.given)
    judged = judging.judge(before, document, streams)
    snapshot = judged.snapshot
    if document.snapshot.sha256 != snapshot.sha256:
        hashes = document.snapshot.sha256[:12], snapshot.sha256[:12]
        fail([f"{path}: the result is of another snapshot: its sha256 is {hashes[0]}, that of this one {hashes[1]}"])
    if judged.violations:
        faults = [f"{' on '.join(filter(None, (f.pod, f.node)))}: {f.rule}: {f.why}" for f in judged.violations]
        fail([f"{path}: the result is not valid: {fault}" for fault in faults], VIOLATED)
    inputs.note_gates(before, stated, streams)
    templates: tuple[TemplateNodes, ...] = ()
    if isinstance(document, Placement) and document.snapshot.workloads:
        templates = tuple(template_nodes(before, snapshot, document.snapshot.workloads, document))
    return Reviewed(document, path, digest, snapshot, templates, choices, streams)
